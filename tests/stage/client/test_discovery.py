"""Finding replicas through DNS, with a resolver that a test scripts."""

import asyncio
import socket

import pytest

from diffusion_stage.client import AsyncStageClient
from diffusion_stage.client.addresses import parse
from diffusion_stage.client.discovery import Discovery, resolve
from diffusion_stage.errors import UnavailableError
from diffusion_stage.wire.messages import Submit
from tests.fakes.stage import FakeStage, answer, hold, in_turn


class FakeDns:
    """A records by host; `None` stands for a server that does not answer."""

    def __init__(self, **records):
        self.records = records
        self.asked = asyncio.Event()

    async def resolve(self, host):
        self.asked.set()
        found = self.records.get(host.replace("-", "_").replace(".", "_"), ())
        if found is None:
            raise UnavailableError(f"{host}: no answer from DNS")
        return frozenset(found)


async def test_endpoints_and_services_are_found_together():
    dns = FakeDns(flux_pods_demo={"10.0.0.1", "10.0.0.2"})
    discovery = Discovery(parse("tcp://a:1,dstage://flux.demo:6000"), dns.resolve)
    assert await discovery.addresses() == {
        "tcp://a:1",
        "tcp://10.0.0.1:6000",
        "tcp://10.0.0.2:6000",
    }
    assert not discovery.is_fixed


async def test_endpoints_alone_never_change():
    assert Discovery(parse("tcp://a:1")).is_fixed


async def test_a_service_without_ready_replicas_is_told():
    discovery = Discovery(parse("flux"), FakeDns().resolve)
    assert await discovery.addresses() == set()
    assert discovery.problems == ["flux-pods has no ready replica"]


async def test_what_was_known_stays_while_dns_is_silent():
    dns = FakeDns(flux_pods={"10.0.0.1"})
    discovery = Discovery(parse("flux"), dns.resolve)
    known = await discovery.addresses()
    dns.records["flux_pods"] = None
    assert await discovery.addresses() == known
    assert discovery.problems == ["flux-pods: no answer from DNS"]


class FakeResolver:
    """Stands where the event loop's `getaddrinfo` is."""

    def __init__(self, monkeypatch, outcome):
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self.getaddrinfo)
        self.outcome = outcome

    async def getaddrinfo(self, host, port, **given):
        assert given == {"family": socket.AF_INET, "type": socket.SOCK_STREAM}
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 0)) for ip in self.outcome]


async def test_the_systems_resolver_gives_ipv4_addresses(monkeypatch):
    FakeResolver(monkeypatch, ["10.0.0.1", "10.0.0.2"])
    assert await resolve("flux-pods") == {"10.0.0.1", "10.0.0.2"}


@pytest.mark.parametrize("code", [socket.EAI_NONAME, socket.EAI_NODATA])
async def test_a_name_without_records_has_no_addresses(monkeypatch, code):
    FakeResolver(monkeypatch, socket.gaierror(code, "not known"))
    assert await resolve("flux-pods") == set()


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (socket.gaierror(socket.EAI_AGAIN, "temporary failure"), "flux-pods: temporary failure"),
        (TimeoutError(), "flux-pods: no answer from DNS"),
    ],
)
async def test_a_resolver_that_fails_is_told_from_an_absent_name(monkeypatch, problem, why):
    FakeResolver(monkeypatch, problem)
    with pytest.raises(UnavailableError, match=why):
        await resolve("flux-pods")


@pytest.fixture
async def pair():
    """Two stages at the same port of two loopback addresses, as pods are."""
    first, second = FakeStage("flux-0"), FakeStage("flux-1")
    async with first:
        port = first.address.rpartition(":")[2]
        second.address = f"tcp://127.0.0.2:{port}"
        async with second:
            yield f"dstage://flux:{port}", first, second


async def test_replicas_that_appear_and_vanish_are_followed(pair):
    address, _, _ = pair
    dns = FakeDns(flux_pods={"127.0.0.1"})
    async with AsyncStageClient(address, resolve=dns.resolve, refresh_s=0.01) as client:
        assert (await client.generate("a")).replica == "flux-0"
        dns.records["flux_pods"] = {"127.0.0.2"}
        async with asyncio.timeout(10):
            while (await client.generate("a")).replica == "flux-0":
                pass
        async with asyncio.timeout(10):
            while [each.name for each in await client.status()] != ["flux-1"]:
                pass


async def test_a_vanished_replica_still_answers_what_it_has(pair):
    address, first, _ = pair
    first.script = in_turn(hold, answer)
    dns = FakeDns(flux_pods={"127.0.0.1"})
    async with AsyncStageClient(address, resolve=dns.resolve, refresh_s=0.01) as client:
        request = asyncio.create_task(client.generate("a"))
        await first.has_heard(Submit)
        dns.records["flux_pods"] = {"127.0.0.2"}
        async with asyncio.timeout(10):
            while (await client.generate("b")).replica == "flux-0":
                pass
        first.tasks[0].result()
        assert (await request).replica == "flux-0"


async def test_a_service_that_nobody_knows_is_told_in_time():
    client = AsyncStageClient("flux.demo", resolve=FakeDns().resolve, connect_timeout_s=0.05)
    async with client:
        with pytest.raises(UnavailableError, match=r"flux-pods\.demo has no ready replica"):
            await client.generate("a")
