"""Clients and stages with keys, on real sockets: who speaks with whom, and what the others hear."""

import asyncio

import pytest

from diffusion_stage.client import AsyncStageClient, StageClient
from diffusion_stage.client import pool as client_pool
from diffusion_stage.client.greeting import mechanism
from diffusion_stage.errors import UnauthenticatedError
from diffusion_stage.wire.messages import Submit
from tests.fakes.stage import FakeStage, answer, hold, in_turn
from tests.fakes.threads import StageThread
from tests.stage.curve import ClientFiles, ServerFiles, new_pair

AT_ONCE_S = 30  # on a busy machine; a refusal is told long before `connect_timeout_s`


@pytest.fixture
def server(tmp_path):
    return ServerFiles(tmp_path / "server")


@pytest.fixture
def anne(tmp_path, server):
    """A client that the stage admits."""
    files = ClientFiles(tmp_path / "anne", server.pair)
    server.admit(anne=files)
    return files


@pytest.fixture
async def stage(server):
    async with FakeStage(keys=server) as stage:
        yield stage


@pytest.fixture
async def plain():
    async with FakeStage("plain") as stage:
        yield stage


async def refusal(address, **given):
    async with asyncio.timeout(AT_ONCE_S), AsyncStageClient(address, **given) as client:
        with pytest.raises(UnauthenticatedError) as refused:
            await client.generate("a")
    return str(refused.value)


async def troubled(client, words):
    """Waits until a replica's trouble is told in these words."""
    async with asyncio.timeout(AT_ONCE_S):
        while not any(words in str(r.trouble) for r in await client.status(timeout_s=0.2)):
            pass


async def test_a_client_with_keys_is_served(stage, anne):
    async with AsyncStageClient(stage.address, curve=anne.keys) as client:
        assert (await client.generate("a")).attempts == 1
        (replica,) = await client.status()
    assert replica.is_ready


async def test_a_client_without_a_key_is_told_so(stage):
    said = await refusal(stage.address)
    assert said == f"{stage.address}: it speaks with clients that have a key; none was given"


async def test_a_client_with_keys_does_not_speak_with_a_stage_that_has_none(plain, anne):
    said = await refusal(plain.address, curve=anne.keys)
    assert said == (
        f"{plain.address}: it has no key and speaks without encryption; the keys in {anne.folder} "
        "are for stages that have one"
    )
    assert plain.heard == []


async def test_a_client_that_is_not_in_the_list_is_told_its_key(stage, anne, server):
    server.admit()
    assert await refusal(stage.address, curve=anne.keys) == (
        f"{stage.address}: it does not admit the public key {anne.pair.public} of {anne.folder}; "
        "allowed: those in its list of clients"
    )


async def test_a_client_that_knows_other_stages_only_is_told_so(stage, anne):
    anne.know(new_pair(), new_pair())
    assert await refusal(stage.address, curve=anne.keys) == (
        f"{stage.address}: it has none of the 2 key(s) in {anne.folder}/servers"
    )


async def test_the_status_of_a_replica_that_refuses_us_says_why(stage):
    async with AsyncStageClient(stage.address) as client:
        await troubled(client, "none was given")


def test_the_blocking_client_has_keys_too(server, anne):
    running = StageThread(FakeStage(keys=server))
    with StageClient(running.stage.address, curve=anne.keys) as client:
        assert client.generate("a").attempts == 1
    with (
        StageClient(running.stage.address) as client,
        pytest.raises(UnauthenticatedError, match="none was given"),
    ):
        client.generate("a")
    running.stop()


async def test_the_key_of_the_stage_is_found_among_several(stage, anne, server):
    anne.know(new_pair(), new_pair(), server.pair)
    async with asyncio.timeout(AT_ONCE_S):
        async with AsyncStageClient(stage.address, curve=anne.keys) as client:
            assert (await client.generate("a")).attempts == 1


async def test_replicas_that_admit_us_are_used_beside_one_that_does_not(tmp_path, stage, anne):
    other = ServerFiles(tmp_path / "other")
    anne.know(stage.keys.pair, other.pair)
    async with (
        FakeStage("other", keys=other) as refusing,
        AsyncStageClient([refusing.address, stage.address], curve=anne.keys) as client,
    ):
        made = [await client.generate("a") for _ in range(3)]
    assert {each.replica for each in made} == {"stage-0"}


async def test_a_stage_that_comes_back_with_a_new_key_is_met_with_it(stage, anne, server):
    old = server.pair
    async with AsyncStageClient(stage.address, curve=anne.keys) as client:
        await client.generate("a")
        stage.die()
        server.renew()
        anne.know(old, server.pair)  # which the client reads when the key that it has fails
        stage.start()
        async with asyncio.timeout(AT_ONCE_S):
            assert (await client.generate("b")).replica == "stage-0"


async def test_keys_that_arrive_late_are_waited_for(stage, anne, server):
    async with AsyncStageClient(stage.address, curve=anne.keys) as client:
        await client.generate("a")
        stage.die()
        server.renew()
        stage.start()
        request = asyncio.create_task(client.generate("b"))
        await troubled(client, "it has none of the 1 key(s)")
        assert not request.done()
        anne.know(server.pair)
        assert (await request).replica == "stage-0"


async def test_a_pair_of_our_own_that_was_renewed_is_read(stage, anne, server):
    async with AsyncStageClient(stage.address, curve=anne.keys) as client:
        await client.generate("a")
        stage.die()
        anne.renew()
        server.admit(anne=anne)
        stage.start()
        assert (await client.generate("b")).replica == "stage-0"


async def test_patience_with_stages_that_took_us_before_ends(stage, anne, server, monkeypatch):
    monkeypatch.setattr(client_pool, "PATIENCE_S", 0.5)
    async with AsyncStageClient(stage.address, curve=anne.keys) as client:
        await client.generate("a")
        server.admit()
        stage.die()
        stage.start()
        async with asyncio.timeout(AT_ONCE_S):
            with pytest.raises(UnauthenticatedError, match="does not admit the public key"):
                await client.generate("b")


async def test_a_client_that_is_struck_off_while_it_is_connected_uses_other_replicas(
    tmp_path, stage, anne
):
    other = ServerFiles(tmp_path / "other")
    other.admit(anne=anne)
    anne.know(stage.keys.pair, other.pair)
    async with (
        FakeStage("other", keys=other) as second,
        AsyncStageClient([stage.address, second.address], curve=anne.keys) as client,
    ):
        await client.status()
        stage.script = second.script = in_turn(strike_off, answer)
        made = await client.generate("a")
        assert made.attempts == 2
        refusing = next(each for each in (stage, second) if each.name != made.replica)
        assert len(refusing.of(Submit)) == 1


async def strike_off(task):
    task.stage.greets = False
    task.fail("UNAUTHENTICATED")


async def test_a_refusal_ends_no_request_that_runs_elsewhere(stage, anne, tmp_path):
    stage.script = hold
    refusing = ServerFiles(tmp_path / "other")
    anne.know(stage.keys.pair, refusing.pair)
    async with (
        FakeStage("other", keys=refusing) as other,
        AsyncStageClient([stage.address, other.address], curve=anne.keys) as client,
    ):
        request = asyncio.create_task(client.generate("a"))
        task = await stage.has_heard_prompt("a")
        await troubled(client, "it does not admit the public key")
        task.result()
        assert (await request).attempts == 1


async def test_the_greeting_tells_the_mechanism(stage, plain):
    assert await mechanism(stage.address) == "CURVE"
    assert await mechanism(plain.address) == "NULL"


async def test_nothing_is_told_of_what_does_not_greet():
    async def talk_http(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4)
        writer.close()

    async with await asyncio.start_server(talk_http, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await mechanism(f"tcp://127.0.0.1:{port}") is None
    assert await mechanism(f"tcp://127.0.0.1:{port}") is None
