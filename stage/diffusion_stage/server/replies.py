"""What a request came to, as messages to its client."""

from diffusion_stage.errors import RequestError
from diffusion_stage.outputs import ChunkReady, DiffusionOutput
from diffusion_stage.wire import messages as w

MAX_WORDS = 2000  # of an error, parts of which may be its sender's own


def chunk(event: ChunkReady, request_id: str, attempt: int) -> w.Chunk:
    """The tensors travel as payload, as those of `result`."""
    return w.Chunk(
        request_id=request_id,
        attempt=attempt,
        index=event.index,
        outputs=list(event.output.specs),
    )


def result(output: DiffusionOutput, request_id: str, attempt: int, total_s: float) -> w.Result:
    """`total_s`: from the request's arrival."""
    return w.Result(
        request_id=request_id,
        attempt=attempt,
        outputs=list(output.specs),
        seed=output.seed,
        rank=output.rank,
        metrics={**output.metrics, "total_ms": 1000 * total_s},
    )


def error(failed: RequestError, request_id: str | None = None, attempt: int = 0) -> w.Error:
    return w.Error(
        status=failed.status,
        reason=failed.reason,
        message=str(failed)[:MAX_WORDS],
        retryable=failed.retryable,
        field=failed.field and failed.field[:MAX_WORDS],
        request_id=request_id,
        attempt=attempt,
    )
