"""`diffusion-stage keys`: a new pair of CURVE keys, for a client or a stage."""

import argparse
import os
import sys
from pathlib import Path

import zmq

from diffusion_stage.client.keys import PUBLIC_KEY, SECRET_KEY, SERVERS

EX_USAGE = 2
PRIVATE = 0o600
PUBLIC = 0o644


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help=f"gets the files {SECRET_KEY} and {PUBLIC_KEY}"
    )
    parser.add_argument(
        "--name", help="of the client, in the list of those that may connect; default: DIR's own"
    )


def run(args: argparse.Namespace) -> int:
    """Prints the line for the list of clients. Overwrites nothing."""
    name = args.name or args.folder.resolve().name
    if not name or name.startswith("#") or name.split() != [name]:
        return _refuse(f"--name {name!r}; allowed: one word that does not start with #")
    files = [args.folder / file for file in (SECRET_KEY, PUBLIC_KEY)]
    try:
        args.folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            if file.exists():
                return _refuse(f"{file} exists already; allowed: a folder without keys")
        public_key, secret_key = zmq.curve_keypair()
        _write(files[0], secret_key, PRIVATE)
        _write(files[1], public_key, PUBLIC)
    except OSError as error:
        return _refuse(f"{args.folder}: {error.strerror}")
    print(f"{name} {public_key.decode()}")
    print(
        f"That line belongs into the stage's list of clients, and the stage's public key into "
        f"{args.folder / SERVERS}.",
        file=sys.stderr,
    )
    return 0


def _write(path: Path, key: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(key + b"\n")


def _refuse(message: str) -> int:
    print(f"diffusion-stage keys: {message}", file=sys.stderr)
    return EX_USAGE
