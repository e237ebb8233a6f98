"""Stages with CURVE keys in processes of their own, also while their keys change."""

import asyncio
import signal
from collections import Counter

import pytest

from diffusion_stage.client import AsyncStageClient
from diffusion_stage.errors import UnauthenticatedError
from tests.stage.curve import ClientFiles, ServerFiles
from tests.stage.life.figures import show
from tests.stage.life.replicas import CALLERS, Load, Replica

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

REQUESTS = 90


@pytest.fixture
def files(tmp_path):
    return [ServerFiles(tmp_path / f"server-{number}") for number in range(2)]


@pytest.fixture
def anne(tmp_path, files):
    anne = ClientFiles(tmp_path / "anne", *(each.pair for each in files))
    for each in files:
        each.admit(anne=anne)
    return anne


async def test_only_clients_in_the_list_are_served_as_it_stands(serve, files, anne):
    server, _ = files
    stage = serve(**server.flags).wait_ready()
    async with AsyncStageClient(stage.address, curve=anne.keys) as client:
        await client.generate("a", num_inference_steps=1)
        server.admit()
        (replica,) = await client.status(timeout_s=30)
        assert "is not admitted any more" in replica.trouble
        for keys in (anne.keys, None):
            async with AsyncStageClient(stage.address, curve=keys) as other:
                with pytest.raises(UnauthenticatedError):
                    await other.generate("a")
        server.replace_clients(f"nonsense\nanne {anne.pair.public}\n")
        await client.generate("a", num_inference_steps=1)
    assert "client anne connects from 127.0.0.1" in stage.log
    assert f"its key {anne.pair.public} is not in {server.clients}" in stage.log
    assert f"{server.clients}, line 1: 'nonsense'" in stage.log
    assert server.pair.secret not in stage.log


@pytest.fixture
def replicas(serve, files):
    made = [
        Replica(serve, f"stage-{number}", num_gpus=1, **each.flags)
        for number, each in enumerate(files)
    ]
    yield [replica.wait_ready() for replica in made]
    for replica in made:
        replica.stop()


async def back(replica, started):
    """Waits until the replica was started again and is ready."""
    while len(replica.exit_codes) < started:  # noqa: ASYNC110  # it ends in a thread
        await asyncio.sleep(0.05)
    await asyncio.to_thread(replica.wait_ready)


async def rotate(load, replicas, files, anne):
    """One replica drains and comes back with a key that the client has; so does the other, killed,
    with one that the client gets later.
    """
    load.send(range(REQUESTS // 3))
    await load.answers(10)
    old = files[1].pair
    files[0].renew()
    anne.know(files[0].pair, old)
    replicas[0].stage.kill(signal.SIGTERM)
    load.send(range(REQUESTS // 3, 2 * REQUESTS // 3))
    await back(replicas[0], 1)
    await load.answers(2 * REQUESTS // 3 - 10)
    load.send(range(2 * REQUESTS // 3, REQUESTS))
    await load.answers(5)
    files[1].renew()
    replicas[1].stage.kill(signal.SIGKILL)
    await back(replicas[1], 1)
    anne.know(files[0].pair, files[1].pair)
    load.send([None] * CALLERS)


async def test_no_request_is_lost_or_answered_twice_while_keys_change(replicas, files, anne):
    load = Load()
    addresses = [replica.stage.address for replica in replicas]
    async with AsyncStageClient(addresses, curve=anne.keys) as client:
        await asyncio.gather(
            rotate(load, replicas, files, anne), *(load.caller(client) for _ in range(CALLERS))
        )
        found = await client.status(timeout_s=10)
    show(f"{REQUESTS} requests, two new keys, attempts {dict(load.attempts)}", load.seconds)
    assert load.answered == Counter(f"{seed}" for seed in range(REQUESTS))
    assert load.attempts.total() > load.attempts[1], "no work was under way at a death"
    assert [each.is_ready for each in found] == [True, True]
    assert [replica.exit_codes for replica in replicas] == [[0], [-signal.SIGKILL]]
