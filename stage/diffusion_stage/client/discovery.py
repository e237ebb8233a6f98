"""Which addresses a set of targets stands for at this moment."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from diffusion_stage.client.addresses import Endpoint, Service, Target
from diffusion_stage.errors import UnavailableError

RESOLVE_TIMEOUT_S = 5.0
_ABSENT = frozenset({socket.EAI_NONAME, socket.EAI_NODATA})

Resolve = Callable[[str], Awaitable[frozenset[str]]]
"""The IPv4 addresses of a host; none when it has no record. Raises `UnavailableError`."""


async def resolve(host: str) -> frozenset[str]:
    """Asks the system's resolver, and waits for it for a bounded time."""
    loop = asyncio.get_running_loop()
    records = loop.getaddrinfo(host, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.wait_for(records, RESOLVE_TIMEOUT_S)
    except socket.gaierror as error:
        if error.errno in _ABSENT:
            return frozenset()
        raise UnavailableError(f"{host}: {error.strerror}") from None
    except TimeoutError:
        raise UnavailableError(f"{host}: no answer from DNS in {RESOLVE_TIMEOUT_S} s") from None
    return frozenset(str(record[4][0]) for record in found)


class Discovery:
    """Remembers the last answer for each Service, for the times when DNS gives none."""

    def __init__(self, targets: Sequence[Target], resolve: Resolve = resolve) -> None:
        self._targets = targets
        self._resolve = resolve
        self._found: dict[Service, frozenset[str]] = {}
        self._failed: dict[Service, str] = {}

    @property
    def is_fixed(self) -> bool:
        """No Service among the targets: the addresses never change."""
        return all(isinstance(target, Endpoint) for target in self._targets)

    @property
    def problems(self) -> list[str]:
        """What DNS last refused, and Services without a ready replica."""
        empty = [
            f"{each.host} has no ready replica" for each, ips in self._found.items() if not ips
        ]
        return [*self._failed.values(), *empty]

    async def addresses(self) -> frozenset[str]:
        """The addresses to be connected with now."""
        fixed = {each.address for each in self._targets if isinstance(each, Endpoint)}
        services = [each for each in self._targets if isinstance(each, Service)]
        found = await asyncio.gather(*(self._look_up(service) for service in services))
        return frozenset(fixed.union(*found))

    async def _look_up(self, service: Service) -> set[str]:
        try:
            self._found[service] = await self._resolve(service.host)
            self._failed.pop(service, None)
        except UnavailableError as error:
            self._failed[service] = str(error)
        return {f"tcp://{ip}:{service.port}" for ip in self._found.get(service, frozenset())}
