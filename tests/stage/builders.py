"""Configurations, requests and outputs as short as a test of the stage needs them."""

from diffusion_stage.capabilities import Capabilities, Parameter
from diffusion_stage.config.stage import (
    EngineConfig,
    ModelConfig,
    ParallelConfig,
    ServingConfig,
    StageConfig,
    TimeoutConfig,
)
from diffusion_stage.outputs import DiffusionOutput, RunnerOutput
from diffusion_stage.request import DiffusionRequest
from diffusion_stage.wire.messages import Submit, Tensor
from diffusion_stage.worker.messages import WorkerSpec

PIXEL = Tensor(name="images", kind="image", dtype="uint8", shape=(1, 1, 1, 3))

CAPABILITIES = Capabilities(
    pipeline="FakePipeline",
    parameters={
        "prompt": Parameter(types=("str", "list")),
        "negative_prompt": Parameter(types=("str",)),
        "prompt_embeds": Parameter(types=("tensor",)),
        "height": Parameter(types=("int",)),
        "width": Parameter(types=("int",)),
        "num_inference_steps": Parameter(types=("int",), default=20),
        "num_images_per_prompt": Parameter(types=("int",), default=1),
        "guidance_scale": Parameter(types=("float",), default=5.0),
        "sigmas": Parameter(types=("list",)),
        "anything": Parameter(),
    },
    has_step_callback=True,
    has_output_type=True,
    size_multiple=16,
    max_size=64,
)


def make_config(*, model="/models/m", **given):
    """Each field by its own name, as on the command line; no warm-up unless it is asked for."""
    groups = {
        "parallel": ParallelConfig,
        "engine": EngineConfig,
        "serving": ServingConfig,
        "timeouts": TimeoutConfig,
    }
    given = {"device": "cpu", "warmup": False, "host": "127.0.0.1", "port": 0, "admin_port": 0} | {
        "name": "stage-0",
        **given,
    }
    made = {
        title: group(
            **{name: given.pop(name) for name in list(given) if name in group.model_fields}
        )
        for title, group in groups.items()
    }
    return StageConfig(model=ModelConfig(model=model, **given), **made)


def make_request(request_id="a", *, attempt=1, seed=0, **given):
    params = given.pop("params", {"prompt": "a red circle"})
    return DiffusionRequest(
        request_id=request_id, attempt=attempt, params=params, seed=seed, **given
    )


def make_submit(request_id="a", *, prompt="a red circle", **given):
    """A `Submit`; what is no field of it becomes a parameter of the pipeline."""
    fields = {name: given.pop(name) for name in list(given) if name in Submit.__struct_fields__}
    params = given if prompt is None else {"prompt": prompt, **given}
    return Submit(request_id=request_id, params=params, **fields)


def make_output(*, seed=0, release=lambda: None):
    return DiffusionOutput((PIXEL,), (b"rgb",), seed=seed, release=release)


def done(request_id, output=None):
    return RunnerOutput(request_id, result=output or make_output())


def computed(request_id):
    """The forward is done, the output is still being packed."""
    return RunnerOutput(request_id, async_output_id=request_id)


def failed(request_id, error):
    return RunnerOutput(request_id, error=error)


def make_spec(**given):
    """What a worker with a fake pipeline is told."""
    return WorkerSpec(
        **{
            "rank": 0,
            "world_size": 1,
            "device": "cpu",
            "dtype": "auto",
            "model_uri": "/models/m",
            "model_revision": None,
            "pipeline_class": "tests.fakes.pipelines:Pipeline",
            "worker_extension": None,
            "is_streaming": False,
            "model_runner": None,
            "store": "",
        }
        | given
    )
