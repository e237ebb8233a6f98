"""What a replica says of itself at its admin port."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, ValidationError


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Load(Part):
    """Requests, by where they are."""

    waiting: int
    running: int
    materializing: int


class Worker(Part):
    rank: int
    device: str
    step: int | None = None


class AdminStatus(Part):
    """The document at `/status`; before the engine is there, it tells of no load."""

    phase: str
    uptime_s: float
    pipeline: str | None = None
    load: Load | None = None
    workers: tuple[Worker, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of asking: a status, or why there is none."""

    status: AdminStatus | None = None
    trouble: str = ""


def answer(text: str) -> Answer:
    """Of what was read from the port."""
    try:
        return Answer(AdminStatus.model_validate_json(text))
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(map(str, wrong["loc"])) or "the document"
        return Answer(trouble=f"not the status of a stage: {place}: {wrong['msg']}")
