"""Stages and clients that end with their test."""

from contextlib import AsyncExitStack

import pytest

from diffusion_stage.client import AsyncStageClient
from tests.fakes.stage import FakeStage


@pytest.fixture
async def stage():
    async with FakeStage() as stage:
        yield stage


@pytest.fixture
async def client(stage):
    async with AsyncStageClient(stage.address) as client:
        yield client


@pytest.fixture
async def stages():
    """Three stages, `stage-0` to `stage-2`."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(FakeStage(f"stage-{n}")) for n in range(3)]


@pytest.fixture
async def clients(stages):
    """A client of the three stages."""
    async with AsyncStageClient(each.address for each in stages) as client:
        await client.status()  # all are connected
        yield client
