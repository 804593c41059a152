"""Keys in a file, in our form and in RocketMQ's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark import Access, Credentials
from rmqspark.client.cluster.access import access_of_environment
from rmqspark.client.cluster.credentials_file import read_credentials
from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, content: str | bytes, mode: int = 0o600) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("name", "content", "meant"),
    [
        ("keys.toml", 'access_key = "ak"\nsecret_key = "s3cret"\n', Credentials("ak", "s3cret")),
        ("keys", "accessKey = 'ak' # mine\nsecretKey = 's3\"cret'\n", Credentials("ak", 's3"cret')),
        ("keys", 'access_key = "ak"\nsecret_key = "s"\nsecurity_token = "t"\n', Credentials("ak", "s", "t")),
        ("tools.yml", "accessKey: rocketmq2\nsecretKey: 12345678\n", Credentials("rocketmq2", "12345678")),
        ("tools.yml", "---\n# mine\naccessKey:  ak\n\nsecretKey: s/3+cret=  # his\n", Credentials("ak", "s/3+cret=")),
        ("t.yaml", "accessKey: 'it''s'\nsecretKey: \"a: #b\"\nsecurityToken:\n", Credentials("it's", "a: #b")),
        ("t.yml", "access_key: a\nsecret_key: b\r\n", Credentials("a", "b")),
    ],
)
def test_what_a_file_says(tmp_path: Path, name: str, content: str, meant: Credentials) -> None:
    """TOML, or a tools.yml as mqadmin has it; both spellings of the names are understood."""
    assert read_credentials(written(tmp_path / name, content), "--credentials") == meant


@pytest.mark.parametrize(
    ("name", "content", "story"),
    [
        ("keys", 'secret_key = "s3cret"', "It has no access_key. Write access_key ="),
        ("keys", 'access_key = "ak"\nsecret_key = ""', "It has no secret_key."),
        ("keys", "access_key = ak\nsecret_key = s3cret", "It is not valid TOML (at line 1, column 14)"),
        ("keys", 'access_key = "ak"\nsecret_key = 12345678', "secret_key is no text. Write it in quotes."),
        (
            "keys",
            'access_key = "ak"\npassword = "s3cret"',
            "It has 'password', which is none of access_key, secret_key",
        ),
        ("keys", 'access_key = "ak"\naccessKey = "s3cret"', "It has access_key twice."),
        ("keys", 'access_key = "ak"\nsecret_key = "s3\\ncret"', "secret_key has characters that no key has"),
        ("keys", b"\xff\xfe", "It is not a text file."),
        ("t.yml", "accessKey: ak\nsecretKey: [s3cret]\n", "Line 2 is no name with a text, or its text wants quotes."),
        ("t.yml", "accounts:\n- accessKey: ak\n", "Line 2 is no name with a text"),
        ("t.yml", "accessKey: ak\n", "It has no secret_key."),
    ],
)
def test_what_no_file_says(tmp_path: Path, name: str, content: str | bytes, story: str) -> None:
    """The error names the file, as the user did, and the form; not what is in it."""
    path = written(tmp_path / name, content)
    with pytest.raises(InvalidArgument) as raised:
        read_credentials(path, "--credentials")
    assert f"--credentials {path}: {story}" in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o666])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """As ssh does it; the error has the command that mends it."""
    path = written(tmp_path / "keys", 'access_key = "ak"\nsecret_key = "s3cret"', mode)
    with pytest.raises(InvalidArgument, match=f"Others can read it, its mode is {mode:o}. Say: chmod 600 {path}"):
        read_credentials(path, "--credentials")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    """It is not there, or it is a directory: said in the words of whoever named it."""
    with pytest.raises(InvalidArgument, match=r"^\$RMQ_CREDENTIALS .*/keys cannot be read: No such file or directory"):
        access_of_environment({"RMQ_CREDENTIALS": str(tmp_path / "keys")})
    with pytest.raises(InvalidArgument, match="cannot be read: Is a directory"):
        access_of_environment({"RMQ_CREDENTIALS": str(tmp_path)})


def test_a_file_that_the_environment_names(tmp_path: Path) -> None:
    """Every client looks there, not rmq alone."""
    path = written(tmp_path / "keys", 'access_key = "ak"\nsecret_key = "s3cret"')
    assert access_of_environment({"RMQ_CREDENTIALS": path}) == Access(Credentials("ak", "s3cret"))
