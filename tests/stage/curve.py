"""CURVE keys in files, as they are mounted into stages and clients."""

from dataclasses import dataclass

import zmq

from diffusion_stage.client import CurveKeys
from diffusion_stage.wire.keys import Credentials


@dataclass(frozen=True)
class Pair:
    public: str
    secret: str


def new_pair():
    public, secret = zmq.curve_keypair()
    return Pair(public.decode(), secret.decode())


NO_KEY = "0" * 40 + "x"


class ServerFiles:
    """The secret key of a stage and its list of clients, in `folder`."""

    def __init__(self, folder):
        folder.mkdir(parents=True)
        self.secret_key = folder / "secret-key"
        self.clients = folder / "clients"
        self.renew()
        self.admit()

    def renew(self):
        """Another key; a stage reads it when it starts."""
        self.pair = new_pair()
        self.secret_key.write_text(f"{self.pair.secret}\n")

    def admit(self, **clients):
        """These and no others, by name."""
        lines = [f"{name} {client.pair.public}\n" for name, client in clients.items()]
        self.replace_clients("".join(lines))

    def replace_clients(self, text):
        """At once, as a mounted ConfigMap is replaced."""
        new = self.clients.with_suffix(".new")
        new.write_text(text)
        new.rename(self.clients)

    @property
    def flags(self):
        """Those of `serve`."""
        return {
            "curve_secret_key_file": str(self.secret_key),
            "curve_clients_file": str(self.clients),
        }


class ClientFiles:
    """What `CurveKeys.read` reads; `servers` are those that it knows."""

    def __init__(self, folder, *servers):
        folder.mkdir(parents=True)
        self.folder = folder
        self.renew()
        self.know(*servers)

    def renew(self):
        self.pair = new_pair()
        (self.folder / "secret-key").write_text(f"{self.pair.secret}\n")
        (self.folder / "public-key").write_text(f"{self.pair.public}\n")

    def know(self, *servers):
        """Servers as pairs."""
        (self.folder / "servers").write_text("".join(f"{each.public}\n" for each in servers))

    @property
    def keys(self):
        return CurveKeys.read(self.folder)

    def credentials(self, server):
        return Credentials(self.pair.public, self.pair.secret, server.public)
