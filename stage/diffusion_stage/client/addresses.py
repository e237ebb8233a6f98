"""Where stages are: one socket address, or a Service whose ready replicas DNS tells."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from diffusion_stage.errors import InvalidArgumentError

DEFAULT_PORT = 5555
HEADLESS_SUFFIX = "-pods"

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOST = "[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?"
_ENDPOINT = re.compile(rf"tcp://(?P<host>{_HOST}):(?P<port>\d{{1,5}})")
_SERVICE = re.compile(
    rf"(dstage://)?(?P<name>{_LABEL})(?P<domain>(\.{_LABEL})*)\.?(:(?P<port>\d{{1,5}}))?"
)
ALLOWED = (
    "tcp://HOST:PORT, a Service as NAME or NAME.NAMESPACE, or dstage://NAME.NAMESPACE:PORT; "
    "several with commas between"
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One stage; a host name is resolved anew at each connect."""

    address: str


@dataclass(frozen=True, slots=True)
class Service:
    """The replicas of a stage: the A records of `host`, its headless Service."""

    host: str
    port: int = DEFAULT_PORT


Target = Endpoint | Service


def parse(addresses: str | Iterable[str]) -> tuple[Target, ...]:
    """The targets, each once. Raises `InvalidArgumentError` for what is no address, or none."""
    texts = addresses.split(",") if isinstance(addresses, str) else list(addresses)
    targets = tuple(dict.fromkeys(_parse(text.strip()) for text in texts))
    if not targets:
        raise _wrong("nothing")
    return targets


def _parse(text: str) -> Target:
    endpoint = _ENDPOINT.fullmatch(text)
    if endpoint:
        _check_port(text, endpoint["port"])
        return Endpoint(text)
    service = _SERVICE.fullmatch(text)
    if service is None or (service["port"] and not text.startswith("dstage://")):
        raise _wrong(repr(text))
    port = service["port"] or str(DEFAULT_PORT)
    _check_port(text, port)
    return Service(f"{service['name']}{HEADLESS_SUFFIX}{service['domain']}", int(port))


def _check_port(text: str, port: str) -> None:
    if not 1 <= int(port) <= 65535:
        raise _wrong(repr(text))


def _wrong(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"address is {what}; allowed: {ALLOWED}", field="address")
