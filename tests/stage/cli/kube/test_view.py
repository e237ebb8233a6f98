"""What a person reads."""

from diffusion_stage.cli.kube.admin import answer
from diffusion_stage.cli.kube.colours import Colours
from diffusion_stage.cli.kube.tree import tree
from diffusion_stage.cli.kube.view import View
from tests.stage.cli.kube.builders import (
    NOW,
    WORKER_DIED,
    condition,
    ended,
    make_event,
    make_pod,
    make_stage,
    waiting,
)
from tests.stage.cli.kube.test_replicas import ADMIN

DIED = "flux-1: WorkerDied (exit 71, rank 1, cuda:1, signal 9): worker 1 was killed"
SHOWN = """\
art/flux  not Ready: CrashLoop  1/2 replicas  age 2d
  1 of 2 replicas ready; flux-1: WorkerDied (exit 71, rank 1, cuda:1, signal
  9): worker 1 was killed; kubelet tries again 40s after the end
  deaths: 3 within 1h, 2 left in the budget, 7 in all
  next: remove the cause of the last death below; kubectl dstage logs flux
  --previous
├─ flux-0  Ready      node-1  age 2h  restarts 0  cuda:0,cuda:1  3 queued, 2 running, 1 packed
└─ flux-1  CrashLoop  node-1  age 2h  restarts 1  -              -
      kubelet tries again 40s after the end
      last death 60s ago: WorkerDied, exit 71, rank 1, cuda:1, signal 9
      (SIGKILL): worker 1 was killed
Events, newest last
    58s ago  WorkerDied  flux-1: WorkerDied (exit 71, rank 1, cuda:1, signal
             9): worker 1 was killed"""


def failing(**given):
    stage = make_stage(
        condition(
            "Ready",
            "False",
            "CrashLoop",
            f"1 of 2 replicas ready; {DIED}; kubelet tries again 40s after the end",
        ),
        restarts={"window": 3, "total": 7, "budgetRemaining": 2, "recent": []},
    )
    again = waiting("CrashLoopBackOff", "back-off 40s restarting failed container=stage")
    dying = make_pod(1, ready=False, state=again, last=ended(71, message=WORKER_DIED))
    pods, answers = [make_pod(0), dying], {"flux-0": answer(ADMIN)}
    return tree(stage, pods, [make_event("WorkerDied", DIED)], answers=answers, **given)


def shown(found, *, width=76, is_coloured=False):
    return "\n".join(View(NOW, width, Colours(is_coloured)).lines(found))


def test_a_stage_in_trouble_is_told_from_its_reason_down_to_its_events():
    assert shown(failing()) == SHOWN


def test_a_stage_that_serves_takes_a_line_for_itself_and_one_for_each_replica():
    found = tree(make_stage(), [make_pod(0), make_pod(1)], [], answers={})
    assert shown(found).splitlines() == [
        "art/flux  Ready: AllReplicasReady  2/2 replicas  age 2d",
        "  2 of 2 replicas ready",
        "  deaths: 0 within 1h, 5 left in the budget, 0 in all",
        "├─ flux-0  Ready  node-1  age 2h  restarts 0  -  -",
        "└─ flux-1  Ready  node-1  age 2h  restarts 0  -  -",
    ]


def test_what_a_replica_does_before_and_after_it_serves_is_told():
    pods = [make_pod(0, ready=False), make_pod(1)]
    answers = {
        "flux-0": answer('{"phase": "startup", "uptime_s": 14}'),
        "flux-1": answer(ADMIN.replace("serving", "draining")),
    }
    loading, draining = shown(tree(make_stage(), pods, [], answers=answers)).splitlines()[-2:]
    assert loading.endswith("-              startup, up 14s")
    assert draining.endswith("draining, up 81s, 3 queued, 2 running, 1 packed")


def test_a_replica_that_does_not_answer_says_so_and_keeps_the_rest():
    answers = {"flux-0": answer("<html>")}
    lines = shown(tree(make_stage(), [make_pod(0)], [], answers=answers)).splitlines()
    assert lines[3].startswith("├─ flux-0  Ready  node-1  age 2h")
    assert lines[4].startswith("│     admin port: not the status of a stage")


def test_how_long_a_replica_is_in_its_state_is_told_where_the_operator_does():
    told = {"name": "flux-0", "state": "Loading", "since": "2026-01-01T11:58:20Z"}
    found = tree(make_stage(replicaStatuses=[told]), [], [], answers={})
    assert "├─ flux-0  Loading 100s  " in shown(found)


def test_what_could_not_be_read_is_told():
    assert "  ! pods cannot be read" in shown(failing(notes=["pods cannot be read"])).splitlines()


def test_colours_change_nothing_but_colours():
    coloured = shown(failing(), is_coloured=True)
    assert "\x1b[31mnot Ready: CrashLoop\x1b[0m" in coloured
    for code in ("1", "2", "31", "32", "33", "0"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured == SHOWN


def test_a_message_of_a_container_cannot_colour_the_terminal():
    stage = make_stage(condition("Ready", "False", "CrashLoop", "\x1b[2Jgone"))
    assert "\x1b" not in shown(tree(stage, [], [], answers={}))


def test_a_narrow_terminal_is_taken_to_be_of_a_readable_width():
    assert max(map(len, shown(failing(), width=5).splitlines()[1:5])) <= 40
