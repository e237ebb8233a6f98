"""Done-when 2 for the real model: an image depends on its prompt and seed, and on nothing else."""

import numpy as np
import pytest
import torch

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

PROMPTS = ["a red circle", "a blue square", "a green triangle", "a yellow star"]
PARAMS = {"height": 64, "width": 64, "num_inference_steps": 6}


@pytest.mark.slow
def test_the_same_seed_gives_the_same_image_alone_and_under_load(serve, icons_model, runner):
    jobs = [(prompt, seed) for seed, prompt in enumerate(PROMPTS)]
    stage = serve(None, model=icons_model, num_gpus=2).wait_ready()
    with stage.client() as client:

        def ask(request_id, prompt, seed):
            client.submit(request_id, prompt=prompt, seed=seed, **PARAMS)

        alone = []
        for job in jobs:
            ask("alone", *job)
            alone.append(client.image_of("alone"))
        for turn in range(3):
            for number, job in enumerate(jobs):
                ask(f"{turn} {number}", *job)
        turns = [(turn, number) for turn in range(3) for number in range(len(jobs))]
        images = client.images_of([f"{turn} {number}" for turn, number in turns])
        for turn, number in turns:
            np.testing.assert_array_equal(images[f"{turn} {number}"], alone[number])
    for (prompt, seed), image in zip(jobs, alone, strict=True):
        generator = torch.Generator("cpu").manual_seed(seed)
        made = runner.pipe(prompt, generator=generator, **PARAMS)
        np.testing.assert_array_equal(np.asarray(made.images[0]), image)
    assert len({image.tobytes() for image in alone}) == len(jobs)
