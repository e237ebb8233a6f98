"""What may stand for a stage, and what it stands for."""

import pytest

from diffusion_stage.client.addresses import Endpoint, Service, parse
from diffusion_stage.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("tcp://10.0.0.7:5555", Endpoint("tcp://10.0.0.7:5555")),
        ("tcp://flux.demo.svc:5555", Endpoint("tcp://flux.demo.svc:5555")),
        ("tcp://flux-0.flux-pods.demo:6000", Endpoint("tcp://flux-0.flux-pods.demo:6000")),
        ("flux", Service("flux-pods")),
        ("flux.demo", Service("flux-pods.demo")),
        ("flux.demo.svc.cluster.local", Service("flux-pods.demo.svc.cluster.local")),
        ("dstage://flux", Service("flux-pods")),
        ("dstage://flux.demo:6000", Service("flux-pods.demo", 6000)),
    ],
)
def test_an_address_is_an_endpoint_or_a_service(text, target):
    assert parse(text) == (target,)


def test_several_addresses_come_as_a_list_or_with_commas():
    both = (Endpoint("tcp://a:1"), Service("flux-pods"))
    assert parse("tcp://a:1, flux") == both
    assert parse(["tcp://a:1", "flux"]) == both


def test_the_same_address_counts_once():
    assert len(parse("flux,dstage://flux:5555")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "flux,",
        "localhost:5555",  # a Service or a host? it must say
        "tcp://localhost",
        "tcp://a:0",
        "tcp://a:70000",
        "tcp://a:5555/path",
        "tcp://[::1]:5555",
        "http://a:5555",
        "dstage://flux:0",
        "Flux_1",
        "-flux",
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(text):
    with pytest.raises(InvalidArgumentError, match="allowed: tcp://HOST:PORT, a Service"):
        parse(text)


def test_no_address_at_all_is_refused():
    with pytest.raises(InvalidArgumentError, match="address is nothing"):
        parse([])
