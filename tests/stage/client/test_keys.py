"""A client's keys: what is read and refused, and the order in which servers' keys are tried."""

import pytest

from diffusion_stage.client import CurveKeys
from diffusion_stage.client.keys import Keyring
from diffusion_stage.errors import InvalidArgumentError
from tests.stage.curve import ClientFiles, new_pair

OLD, NEW = new_pair(), new_pair()


@pytest.fixture
def files(tmp_path):
    return ClientFiles(tmp_path / "keys", OLD, NEW)


@pytest.fixture
def ring(files):
    return Keyring(files.keys)


def tried(ring):
    return ring.credentials.server_key


def test_a_folder_of_keys_is_read(files):
    keys = CurveKeys.read(str(files.folder))
    assert (keys.public_key, keys.secret_key) == (files.pair.public, files.pair.secret)
    assert keys.servers == (OLD.public, NEW.public)


def test_the_secret_is_never_shown(files, ring):
    assert files.pair.secret not in repr(files.keys)
    assert files.pair.secret not in repr(ring.credentials)


@pytest.mark.parametrize("name", ["secret-key", "public-key", "servers"])
def test_a_file_that_is_missing_is_named(files, name):
    (files.folder / name).unlink()
    with pytest.raises(InvalidArgumentError, match=f"{files.folder}/{name}: No such file") as wrong:
        CurveKeys.read(files.folder)
    assert wrong.value.field == "curve"


def test_a_public_key_of_another_pair_is_refused(files):
    (files.folder / "public-key").write_text(OLD.public)
    with pytest.raises(InvalidArgumentError, match="allowed: that of secret-key"):
        CurveKeys.read(files.folder)


def test_the_servers_keys_are_tried_in_turn(ring):
    assert tried(ring) == OLD.public
    assert ring.failed()
    assert tried(ring) == NEW.public
    assert not ring.failed()
    assert tried(ring) == OLD.public


def test_the_one_that_worked_is_tried_first_from_then_on(ring):
    ring.failed()
    ring.worked()
    assert tried(ring) == NEW.public
    assert ring.failed()
    assert tried(ring) == OLD.public


def test_files_that_changed_are_read_anew(files, ring):
    assert not ring.renew()
    files.know(NEW)
    assert ring.renew()
    assert tried(ring) == NEW.public
    assert not ring.failed()


def test_files_that_cannot_be_read_change_nothing(files, ring, caplog):
    files.know()
    assert not ring.renew()
    assert tried(ring) == OLD.public
    assert f"the keys stay as they were: {files.folder}/servers: no key" in caplog.text
