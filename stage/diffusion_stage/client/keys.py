"""A client's CURVE keys: its own pair, and the keys by which it knows stages."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import zmq

from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.wire.keys import Credentials, read_key, read_keys

logger = logging.getLogger(__name__)

SECRET_KEY = "secret-key"
PUBLIC_KEY = "public-key"
SERVERS = "servers"


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """The files of `directory` as they were read. All keys are 40 characters of Z85.

    `servers` has several keys while those of the stages change: some replicas have the new one
    already.
    """

    directory: Path
    public_key: str
    secret_key: str = field(repr=False)
    servers: tuple[str, ...]

    @classmethod
    def read(cls, directory: str | Path) -> Self:
        """Reads `secret-key`, `public-key` and `servers`, which has one public key a line.

        Raises `InvalidArgumentError` that names the file at fault.
        """
        folder = Path(directory)
        keys = cls(
            directory=folder,
            public_key=read_key(folder / PUBLIC_KEY),
            secret_key=read_key(folder / SECRET_KEY),
            servers=read_keys(folder / SERVERS),
        )
        if zmq.curve_public(keys.secret_key.encode()).decode() != keys.public_key:
            raise InvalidArgumentError(
                f"{folder}: {PUBLIC_KEY} is {keys.public_key}; allowed: that of {SECRET_KEY}",
                field="curve",
            )
        return keys

    def renewed(self) -> Self:
        """The files as they are now; these keys while they cannot be read, which is logged."""
        try:
            return self.read(self.directory)
        except InvalidArgumentError as error:
            logger.warning("the keys stay as they were: %s", error)
            return self


class Keyring:
    """In which order the servers' keys are tried at one address; files are read by `renew` only."""

    def __init__(self, keys: CurveKeys) -> None:
        self.keys = keys
        self._order = keys.servers
        self._tried = 0

    @property
    def credentials(self) -> Credentials:
        """Those to try now."""
        server_key = self._order[self._tried]
        return Credentials(self.keys.public_key, self.keys.secret_key, server_key)

    def worked(self) -> None:
        """The key that was tried comes first from now on."""
        key = self._order[self._tried]
        self._order = (key, *(other for other in self._order if other != key))
        self._tried = 0

    def failed(self) -> bool:
        """Goes on to the next key; False when there is none, and the first is next."""
        self._tried = (self._tried + 1) % len(self._order)
        return self._tried > 0

    def renew(self) -> bool:
        """Reads the files again; says whether anything has changed, and then starts anew."""
        keys = self.keys.renewed()
        if keys == self.keys:
            return False
        self.keys, self._order, self._tried = keys, keys.servers, 0
        return True
