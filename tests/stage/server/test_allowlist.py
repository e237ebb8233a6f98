"""The list of clients: who stands in it, what is left out, and changes while it is in use."""

import logging

import pytest

from diffusion_stage.server.allowlist import AllowList, parse
from tests.stage.curve import new_pair

ANNE, BERT = new_pair().public, new_pair().public


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "clients"
    path.write_text(f"anne {ANNE}\n")
    return path


@pytest.fixture
def clients(path):
    return AllowList(path)


def test_each_line_is_a_client_but_for_comments_and_blank_ones():
    names, faults = parse(f"# ours\n\nanne {ANNE}\n  bert\t{BERT}  \n#anne x\n".encode())
    assert (names, faults) == ({ANNE: "anne", BERT: "bert"}, [])


@pytest.mark.parametrize(
    "line",
    ["anne", "anne x", ANNE, f"anne {ANNE} x", "\ufffd"],
    ids=["a name", "no key", "a key", "a word too many", "no text"],
)
def test_a_malformed_line_is_left_out_and_told(line):
    names, faults = parse(f"bert {BERT}\n{line}\n".encode())
    assert names == {BERT: "bert"}
    assert faults == [f"line 2: {line!r:.100}; allowed: NAME and 40 characters of Z85"]


def test_bytes_that_are_no_text_spoil_their_line_alone():
    assert parse(b"\xff\xfe\nanne " + ANNE.encode())[0] == {ANNE: "anne"}


def test_an_empty_list_admits_nobody(path, clients):
    path.write_text("")
    assert clients.name_of(ANNE) is None


def test_a_client_may_have_two_keys(path, clients):
    path.write_text(f"anne {ANNE}\nanne {BERT}\n")
    assert clients.name_of(ANNE) == clients.name_of(BERT) == "anne"


def test_a_change_holds_at_the_next_question(path, clients):
    assert (clients.name_of(ANNE), clients.name_of(BERT)) == ("anne", None)
    path.write_text(f"bert {BERT}\n")
    assert (clients.name_of(ANNE), clients.name_of(BERT)) == (None, "bert")


def test_a_mount_that_is_swapped_by_its_link_is_followed(tmp_path):
    """As the kubelet renews a ConfigMap."""
    for version, line in (("1", f"anne {ANNE}"), ("2", f"bert {BERT}")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "clients").write_text(line)
    (tmp_path / "data").symlink_to("1")
    (tmp_path / "clients").symlink_to("data/clients")
    clients = AllowList(tmp_path / "clients")
    assert clients.name_of(ANNE) == "anne"
    (tmp_path / "new").symlink_to("2")
    (tmp_path / "new").rename(tmp_path / "data")
    assert clients.name_of(ANNE) is None
    assert clients.name_of(BERT) == "bert"


def test_a_file_that_is_gone_admits_nobody_until_it_is_back(path, clients, caplog):
    content = path.read_text()
    path.unlink()
    assert clients.name_of(ANNE) is None
    assert "nobody is admitted: [Errno 2] No such file" in caplog.text
    path.write_text(content)
    assert clients.name_of(ANNE) == "anne"


def test_what_is_wrong_is_logged_once_for_each_content(path, clients, caplog):
    path.write_text(f"anne {ANNE}\nnonsense\n")
    for _ in range(3):
        assert clients.name_of(ANNE) == "anne"
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert [each.getMessage() for each in errors] == [
        f"{path}, line 2: 'nonsense'; allowed: NAME and 40 characters of Z85"
    ]
