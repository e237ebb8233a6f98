"""`diffusion-stage keys`, and commands that use what it made."""

import pytest

from diffusion_stage.cli import main
from diffusion_stage.client import CurveKeys
from tests.fakes.stage import FakeStage
from tests.fakes.threads import StageThread
from tests.stage.curve import ClientFiles, ServerFiles


@pytest.fixture
def server(tmp_path):
    return ServerFiles(tmp_path / "server")


@pytest.fixture
def stage(server):
    running = StageThread(FakeStage("flux-0", keys=server))
    yield running.stage
    running.stop()


@pytest.fixture
def anne(tmp_path, server):
    files = ClientFiles(tmp_path / "anne", server.pair)
    server.admit(anne=files)
    return files


def test_a_pair_is_made_and_its_line_for_the_list_is_told(tmp_path, capsys):
    folder = tmp_path / "anne"
    assert main(["keys", str(folder)]) == 0
    public_key = (folder / "public-key").read_text().strip()
    assert capsys.readouterr().out == f"anne {public_key}\n"
    assert (folder / "secret-key").stat().st_mode & 0o777 == 0o600
    (folder / "servers").write_text(public_key)
    assert CurveKeys.read(folder).public_key == public_key


def test_the_client_may_have_another_name_than_the_folder(tmp_path, capsys):
    assert main(["keys", str(tmp_path), "--name", "bert"]) == 0
    assert capsys.readouterr().out.startswith("bert ")


@pytest.mark.parametrize("name", ["two words", "#anne"])
def test_a_name_that_the_list_cannot_hold_is_refused(tmp_path, capsys, name):
    assert main(["keys", str(tmp_path), "--name", name]) == 2
    assert f"--name {name!r}; allowed: one word" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", ["secret-key", "public-key"])
def test_nothing_is_overwritten(tmp_path, capsys, file):
    (tmp_path / file).write_text("mine")
    assert main(["keys", str(tmp_path)]) == 2
    assert f"{tmp_path}/{file} exists already" in capsys.readouterr().err
    assert [each.read_text() for each in tmp_path.iterdir()] == ["mine"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["keys", str(tmp_path / "file" / "keys")]) == 2
    assert f"{tmp_path}/file/keys: Not a directory" in capsys.readouterr().err


def test_generate_and_status_use_the_keys_of_a_folder(stage, anne, tmp_path, capsys):
    keys = ["--curve-dir", str(anne.folder), "--address", stage.address]
    assert main(["status", *keys]) == 0
    assert main(["generate", *keys, "--prompt", "a", "--out", str(tmp_path / "out")]) == 0
    assert "01-a.png" in capsys.readouterr().out


def test_the_environment_names_the_folder_too(stage, anne, monkeypatch):
    monkeypatch.setenv("DIFFUSION_STAGE_CURVE_DIR", str(anne.folder))
    assert main(["status", "--address", stage.address]) == 0


def test_without_keys_generate_fails_and_says_why(stage, tmp_path, capsys):
    given = ["--address", stage.address, "--prompt", "a", "--out", str(tmp_path)]
    assert main(["generate", *given]) == 1
    assert "it speaks with clients that have a key; none was given" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["generate", "status"])
def test_a_folder_without_keys_is_refused(command, tmp_path, capsys):
    extra = ["--prompt", "a", "--out", str(tmp_path / "out")] if command == "generate" else []
    given = ["--address", "tcp://127.0.0.1:1", "--curve-dir", str(tmp_path), *extra]
    assert main([command, *given]) == 2
    assert f"--curve-dir: {tmp_path}/public-key: No such file" in capsys.readouterr().err
