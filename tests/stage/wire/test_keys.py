"""Keys in files: what is one, and what is told of a file that has none."""

import pytest

from diffusion_stage.errors import InvalidArgumentError
from diffusion_stage.wire.keys import is_key, read_key, read_keys
from tests.stage.curve import new_pair


@pytest.mark.parametrize("text", ["", "0" * 39, "0" * 41, "0" * 39 + "~", "#" * 40, "é" * 40])
def test_what_is_no_key(text):
    """`#####` is above 2³², which no four bytes are."""
    assert not is_key(text)


def test_what_is_one():
    assert is_key(new_pair().public)


def test_one_line_is_a_key(tmp_path):
    key = new_pair().secret
    (tmp_path / "key").write_text(f"\n {key}\n")
    assert read_key(tmp_path / "key") == key


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "0 lines"),
        (b"too-short\n", "9 characters"),
        (b"0" * 39 + b"~", "40 characters"),
        (b"a\nb\n", "2 lines"),
    ],
)
def test_another_content_is_told_by_its_shape_alone(tmp_path, content, found):
    """What stands there may be most of a secret."""
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError) as wrong:
        read_key(path)
    assert str(wrong.value) == (
        f"{path}: {found} that are no key; allowed: one line of 40 characters of Z85"
    )


@pytest.mark.parametrize("read", [read_key, read_keys])
def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path, read):
    with pytest.raises(InvalidArgumentError, match=f"{tmp_path}/key: No such file"):
        read(tmp_path / "key")
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgumentError, match=f"{tmp_path}/key: no text"):
        read(tmp_path / "key")


def test_several_keys_are_read_each_once(tmp_path):
    keys = [new_pair().public for _ in range(3)]
    (tmp_path / "servers").write_text("\n\n".join([*keys, keys[0]]))
    assert read_keys(tmp_path / "servers") == tuple(keys)


@pytest.mark.parametrize(("content", "found"), [("", "no key"), ("x y\n", "'x y' is no key")])
def test_a_list_without_keys_or_with_other_things_is_refused(tmp_path, content, found):
    path = tmp_path / "servers"
    path.write_text(content)
    with pytest.raises(InvalidArgumentError, match=f"{found}; allowed: 40 characters of Z85"):
        read_keys(path)
