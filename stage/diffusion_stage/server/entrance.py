"""The stage's socket, and with CURVE the question who may come in."""

import logging
from pathlib import Path

import zmq

from diffusion_stage.config.stage import ServingConfig
from diffusion_stage.errors import ConfigError, InvalidArgumentError, UnauthenticatedError
from diffusion_stage.server.allowlist import AllowList
from diffusion_stage.wire.keys import read_key
from diffusion_stage.wire.sockets import server_socket

logger = logging.getLogger(__name__)

ZAP = "inproc://zeromq.zap.01"  # where libzmq asks, in the context of the socket that it asks for
USER_ID = "User-Id"


class Door:
    """Answers libzmq's question at each CURVE handshake (ZAP, https://rfc.zeromq.org/spec/27/).

    A client that is struck off the list while it is connected stays so: libzmq 4.3.5 cannot cut one
    peer off. Its requests under way are answered, and `refusal` turns away any further one.
    """

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", clients: AllowList) -> None:
        self._clients = clients
        self.socket = context.socket(zmq.REP)
        self.socket.bind(ZAP)

    def answer(self) -> None:
        """One handshake, which waits in the thread that polls `socket`."""
        version, request_id, _, address, _, _, key = self.socket.recv_multipart(flags=zmq.NOBLOCK)
        public_key = zmq.utils.z85.encode(key).decode()
        name = self._clients.name_of(public_key)
        if name is None:
            logger.warning(
                "a client at %s is refused: its key %s is not in %s",
                address.decode(),
                public_key,
                self._clients.path,
            )
            said = [b"400", b"not admitted", b""]
        else:
            logger.info("client %s connects from %s", name, address.decode())
            said = [b"200", b"admitted", f"{public_key} {name}".encode()]
        self.socket.send_multipart([version, request_id, *said, b""])

    def refusal(self, identity: zmq.Frame) -> UnauthenticatedError | None:
        """Why a client that is connected is not to be served any more."""
        public_key, _, name = str(identity.get(USER_ID)).partition(" ")
        if self._clients.name_of(public_key) is not None:
            return None
        return UnauthenticatedError(
            f"client {name} with the key {public_key} is not admitted any more"
        )


class Entrance:
    """Owns the ROUTER, its context and the door, if any; for one thread, after `__init__`.

    Raises `ConfigError` for a port that cannot be taken, and for key files that cannot be read.
    """

    def __init__(self, serving: ServingConfig) -> None:
        clients, secret_key = _clients(serving), _secret_key(serving)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._door = None if clients is None else Door(self._context, clients)
        address = f"tcp://{serving.host}:{serving.port}"
        try:
            self.socket = server_socket(self._context, address, secret_key=secret_key)
        except zmq.ZMQError as error:
            self._close_door()
            raise ConfigError(
                f"--port {serving.port} on {serving.host}: {error}; allowed: a free one"
            ) from None

    @property
    def port(self) -> int:
        endpoint = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        return int(endpoint.rpartition(":")[2])

    @property
    def poller(self) -> zmq.Poller:
        """A new one, of all that `receive` and `admit` read."""
        poller = zmq.Poller()
        poller.register(self.socket, zmq.POLLIN)
        if self._door is not None:
            poller.register(self._door.socket, zmq.POLLIN)
        return poller

    def admit(self) -> None:
        """Answers a client that knocks, if there is one."""
        if self._door is not None and self._door.socket.poll(0):
            self._door.answer()

    def receive(self) -> tuple[bytes, list[bytes], UnauthenticatedError | None]:
        """A message: its sender, its frames, and why its sender is not to be served.

        Raises `zmq.Again` when there is none.
        """
        identity, *frames = self.socket.recv_multipart(flags=zmq.NOBLOCK, copy=False)
        refusal = None if self._door is None else self._door.refusal(identity)
        return identity.bytes, [frame.bytes for frame in frames], refusal

    def close(self, linger_s: float) -> None:
        self.socket.close(linger=int(1000 * linger_s))
        self._close_door()

    def _close_door(self) -> None:
        if self._door is not None:
            self._door.socket.close(linger=0)
        self._context.term()


def _secret_key(serving: ServingConfig) -> str | None:
    if serving.curve_secret_key_file is None:
        return None
    try:
        return read_key(Path(serving.curve_secret_key_file))
    except InvalidArgumentError as error:
        raise ConfigError(f"--curve-secret-key-file {error}") from None


def _clients(serving: ServingConfig) -> AllowList | None:
    """Later it may come and go; a file that is not there at first is a wrong path."""
    if serving.curve_clients_file is None:
        return None
    path = Path(serving.curve_clients_file)
    try:
        path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"--curve-clients-file {path}: {error.strerror}; allowed: a file of lines "
            "NAME PUBLICKEY, which may be empty"
        ) from None
    return AllowList(path)
