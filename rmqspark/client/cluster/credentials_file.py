"""Keys in a file that its user alone can read: TOML, or RocketMQ's `tools.yml`, which mqadmin takes them from.

access_key = "billing"            accessKey: billing
secret_key = "…"                  secretKey: …
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rmqspark.errors import InvalidArgument
from rmqspark.remoting.access import Credentials, check_credentials
from rmqspark.settings import snake_case

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORM: Final = (
    'Write access_key = "…" and secret_key = "…", as TOML, or accessKey: … and secretKey: … in a file named *.yml.'
)
_MAX_BYTES: Final = 64 << 10
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_YAML_LINE: Final = re.compile(r"([A-Za-z_]+)\s*:(?:\s+(.*))?")
_YAML_VALUE: Final = re.compile(r"""(?:'((?:[^']|'')*)'|"([^"\\]*)"|([^\s'"#&*!|>%@`{}\[\],?:-][^#]*?)?)\s*(?:#.*)?""")


def read_credentials(path: str, source: str) -> Credentials:
    """What stands in the file; `source` is how the user named it. Raises InvalidArgument where it cannot be read, where
    others than its owner could read it, or for what is none of this; no value is in the error."""
    try:
        text = _private_text(path)
        values = _yaml(text) if Path(path).suffix in (".yml", ".yaml") else _toml(text)
        return _credentials(values)
    except OSError as error:
        raise InvalidArgument(f"{source} {path} cannot be read: {error.strerror}.") from None
    except InvalidArgument as error:
        raise InvalidArgument(f"{source} {path}: {error.message}", hint=error.hint) from None


def _private_text(path: str) -> str:
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise InvalidArgument("It is no file.")
        if found.st_mode & _OTHERS:
            mode = stat.S_IMODE(found.st_mode)
            raise InvalidArgument(f"Others can read it, its mode is {mode:o}.", hint=f"Say: chmod 600 {path}")
        content = file.read(_MAX_BYTES)
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidArgument("It is not a text file.", hint=_FORM) from None


def _toml(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at .*\)", str(error))
        raise InvalidArgument(f"It is not valid TOML {place[0] if place else ''}.", hint=_FORM) from None


def _yaml(text: str) -> Mapping[str, Any]:
    """What tools.yml has of YAML: a name and a text a line."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#") or line.rstrip() == "---":
            continue
        named = _YAML_LINE.fullmatch(line.rstrip())
        value = _YAML_VALUE.fullmatch(named[2] or "") if named else None
        if named is None or value is None:
            raise InvalidArgument(f"Line {number} is no name with a text, or its text wants quotes.", hint=_FORM)
        single, double, plain = value.groups()
        values[named[1]] = single.replace("''", "'") if single is not None else double or plain or ""
    return values


def _credentials(values: Mapping[str, Any]) -> Credentials:
    found: dict[str, str] = {}
    for spelled, value in values.items():
        name = snake_case(spelled)
        if name not in Credentials._fields:
            raise InvalidArgument(f"It has {spelled!r}, which is none of {', '.join(Credentials._fields)}.", hint=_FORM)
        if name in found:
            raise InvalidArgument(f"It has {name} twice.")
        if not isinstance(value, str):
            raise InvalidArgument(f"{spelled} is no text.", hint="Write it in quotes.")
        found[name] = value
    for name in ("access_key", "secret_key"):
        if not found.get(name):
            raise InvalidArgument(f"It has no {name}.", hint=_FORM)
    credentials = Credentials(**found)
    check_credentials(credentials)
    return credentials
