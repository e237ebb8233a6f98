"""A stage's tree as lines for a person (pure)."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from diffusion_stage.cli.kube.colours import Colours
from diffusion_stage.cli.kube.replicas import Replica
from diffusion_stage.cli.kube.tree import Occurrence, StageTree
from diffusion_stage.cli.kube.words import NOTHING, ago, duration, plain

STATE_COLOURS = {"Ready": "green", "Failed": "red", "CrashLoop": "red"}
OTHER_STATE = "yellow"
GAP = "  "
NARROWEST = 40


@dataclass(frozen=True, slots=True)
class View:
    """How to show: when, how wide, in which colours."""

    now: datetime
    width: int
    colours: Colours

    def lines(self, tree: StageTree) -> Iterator[str]:
        yield self._heading(tree)
        yield from self._wrapped(tree.message, "  ")
        if tree.warning:
            yield from self._wrapped(f"! {tree.warning}", "  ", "yellow")
        yield from self._wrapped(_deaths(tree), "  ")
        if tree.next_step:
            yield from self._wrapped(f"next: {tree.next_step}", "  ", "bold")
        for note in tree.notes:
            yield from self._wrapped(f"! {note}", "  ", "yellow")
        yield from self._replicas(tree.replicas)
        yield from self._events(tree.events)

    def _heading(self, tree: StageTree) -> str:
        word, colour = ("Ready", "green") if tree.is_ready else ("not Ready", "red")
        if tree.is_ready and tree.warning:
            colour = "yellow"
        name = self.colours.paint(f"{tree.namespace}/{tree.name}", "bold")
        state = self.colours.paint(f"{word}: {plain(tree.reason)}", colour)
        count = f"{tree.ready}/{tree.wanted} replicas"
        return f"{name}{GAP}{state}{GAP}{count}{GAP}age {ago(tree.created, self.now)}"

    def _replicas(self, replicas: Sequence[Replica]) -> Iterator[str]:
        rows = [_cells(one, self.now) for one in replicas]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for place, (replica, row) in enumerate(zip(replicas, rows, strict=True), start=1):
            is_last = place == len(replicas)
            padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            colour = STATE_COLOURS.get(replica.state, OTHER_STATE)
            padded[1] = self.colours.paint(padded[1], colour)
            yield f"{'└─' if is_last else '├─'} {GAP.join(padded).rstrip()}"
            for text in _details(replica, self.now):
                yield from self._wrapped(text, "      " if is_last else "│     ")

    def _events(self, events: Sequence[Occurrence]) -> Iterator[str]:
        if events:
            yield self.colours.paint("Events, newest last", "bold")
        for one in events:
            when = f"{ago(one.time, self.now):>7} ago"
            colour = "yellow" if one.type == "Warning" else "dim"
            reason = self.colours.paint(plain(one.reason), colour)
            first, *rest = self._wrap(one.note, " " * 13, len(plain(one.reason)) + 2)
            yield f"{when}{GAP}{reason}{GAP}{first.strip()}"
            yield from rest

    def _wrapped(self, text: str, indent: str, colour: str | None = None) -> Iterator[str]:
        for line in self._wrap(text, indent):
            body = line[len(indent) :]
            yield indent + (body if colour is None else self.colours.paint(body, colour))

    def _wrap(self, text: str, indent: str, taken: int = 0) -> list[str]:
        """`taken`: how much of the first line is used already. One line at least."""
        return textwrap.wrap(
            plain(text),
            max(self.width, NARROWEST),
            initial_indent=indent + " " * taken,
            subsequent_indent=indent,
            break_on_hyphens=False,
        ) or [indent]


def _deaths(tree: StageTree) -> str:
    counts = f"deaths: {tree.deaths_in_window} within {duration(tree.window_s)}"
    if tree.budget_remaining is not None:
        counts += f", {tree.budget_remaining} left in the budget"
    return f"{counts}, {tree.deaths_total} in all"


def _cells(one: Replica, now: datetime) -> tuple[str, ...]:
    return tuple(
        plain(cell)
        for cell in (
            one.name,
            one.state if one.since is None else f"{one.state} {ago(one.since, now)}",
            one.node or NOTHING,
            f"age {ago(one.created, now)}",
            f"restarts {one.restarts}",
            ",".join(one.devices) or NOTHING,
            _load(one),
        )
    )


def _load(one: Replica) -> str:
    if one.uptime_s is None:
        return NOTHING
    phase = f"{one.phase}, up {duration(one.uptime_s)}"
    if one.load is None:
        return phase
    packing = f", {one.load.materializing} packed" if one.load.materializing else ""
    load = f"{one.load.waiting} queued, {one.load.running} running{packing}"
    return load if one.phase == "serving" else f"{phase}, {load}"


def _details(one: Replica, now: datetime) -> Iterator[str]:
    if one.message:
        yield one.message
    if one.admin_trouble:
        yield f"admin port: {one.admin_trouble}"
    death = one.last_death
    if death is not None:
        when = "" if death.time is None else f" {ago(death.time, now)} ago"
        said = f": {death.message}" if death.message else ""
        yield f"last death{when}: {death.facts}{said}"
