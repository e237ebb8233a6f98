"""Who comes in: a front end with CURVE keys, and clients that have others, or none."""

import logging
import time

import pytest
import zmq

from diffusion_stage.errors import ConfigError
from diffusion_stage.server.entrance import Entrance
from diffusion_stage.server.frontend import Frontend
from diffusion_stage.wire.messages import Control, ControlReply, Error, Hello, Result
from tests.fakes.engine import FakeEngine
from tests.stage.builders import make_config
from tests.stage.curve import ClientFiles, ServerFiles, new_pair

NOT_SERVED_S = 0.5


@pytest.fixture
def files(tmp_path):
    return ServerFiles(tmp_path / "server")


@pytest.fixture
def engine(files):
    return FakeEngine(make_config(**files.flags))


@pytest.fixture
def anne(tmp_path):
    return ClientFiles(tmp_path / "anne")


def is_served(client):
    client.say(Hello(name="x"))
    return not client.hears_nothing_of(Hello, for_s=NOT_SERVED_S)


def until_logged(caplog, words):
    deadline = time.monotonic() + 30
    while words not in caplog.text:
        assert time.monotonic() < deadline, caplog.text
        time.sleep(0.01)


def test_a_client_in_the_list_is_served_and_named_in_the_log(files, anne, connect, caplog):
    caplog.set_level(logging.INFO)
    files.admit(anne=anne)
    assert connect(credentials=anne.credentials(files.pair)).greet().name == "stage-0"
    assert "client anne connects from 127.0.0.1" in caplog.text


def test_a_client_with_another_key_is_not_and_its_key_is_told(files, anne, connect, caplog):
    assert not is_served(connect(credentials=anne.credentials(files.pair)))
    until_logged(caplog, f"127.0.0.1 is refused: its key {anne.pair.public} is not in")


def test_a_client_without_a_key_is_not(connect, frontend):
    assert not is_served(connect())


def test_a_client_that_expects_another_stage_is_not(files, anne, connect):
    files.admit(anne=anne)
    assert not is_served(connect(credentials=anne.credentials(new_pair())))


def test_a_client_that_is_added_later_is_served(files, anne, connect):
    assert not is_served(connect(credentials=anne.credentials(files.pair)))
    files.admit(anne=anne)
    assert connect(credentials=anne.credentials(files.pair)).greet()


def test_a_malformed_line_costs_nobody_else_the_entry(files, anne, connect, caplog):
    files.replace_clients(f"nonsense\nanne {anne.pair.public}\n")
    assert connect(credentials=anne.credentials(files.pair)).greet()
    assert "line 1: 'nonsense'" in caplog.text


def test_a_client_that_is_struck_off_gets_what_it_asked_for_and_nothing_new(
    files, anne, connect, engine
):
    files.admit(anne=anne)
    client = connect(credentials=anne.credentials(files.pair))
    client.accepted("before")
    files.admit()
    client.submit("after")
    error = client.end_of("after")
    assert (error.status, error.retryable) == ("UNAUTHENTICATED", True)
    assert error.message == (
        f"client anne with the key {anne.pair.public} is not admitted any more"
    )
    client.say(Control(control_id="1", method="status"))
    assert "not admitted any more" in client.hear(ControlReply).error
    client.say(Hello(name="x"))
    assert client.hear(Error).reason == "UNAUTHENTICATED"
    engine.complete("before")
    assert isinstance(client.end_of("before"), Result)
    files.admit(anne=anne)
    client.accepted("again")


def test_two_stages_of_one_process_have_doors_of_their_own(tmp_path, anne):
    entrances = []
    for name in ("a", "b"):
        files = ServerFiles(tmp_path / name)
        entrances.append(Entrance(make_config(**files.flags).serving))
    for entrance in entrances:
        entrance.close(0)


def wrong_key(files):
    files.secret_key.write_text("secret of another kind\n")
    return f"--curve-secret-key-file {files.secret_key}: 22 characters that are no key; allowed: "


def no_key(files):
    files.secret_key.unlink()
    return f"--curve-secret-key-file {files.secret_key}: No such file or directory"


def no_list(files):
    files.clients.unlink()
    return f"--curve-clients-file {files.clients}: No such file or directory"


@pytest.mark.parametrize("spoil", [wrong_key, no_key, no_list])
def test_files_that_cannot_be_read_at_the_start_are_a_wrong_configuration(files, engine, spoil):
    words = spoil(files)
    with pytest.raises(ConfigError) as wrong:
        Frontend(engine, None, None, None, name="stage-0")
    assert str(wrong.value).startswith(words)
    assert "secret of" not in str(wrong.value)


def test_a_port_that_is_taken_leaves_no_socket(files):
    with zmq.Context() as context, context.socket(zmq.REP) as owner:
        port = owner.bind_to_random_port("tcp://127.0.0.1")
        with pytest.raises(ConfigError, match=f"--port {port} on 127.0.0.1: "):
            Entrance(make_config(port=port, **files.flags).serving)
