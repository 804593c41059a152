"""Settings are data beside the code they configure: frozen dataclasses whose fields carry unit and meaning.

`setting` declares one field. `load` fills a dataclass from a file (TOML, or a stock RocketMQ `broker.conf`), the
environment (`RMQ_FLUSH_DISK_TYPE`) and flags, later ones winning. Names are RocketMQ's in snake_case; RocketMQ's own
camelCase is understood wherever a name is read. `--help` and docs/operations.md are made from the same fields, so each
setting is described once.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import tomllib
import types
import typing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ENVIRONMENT_PREFIX = "RMQ_"
_SLIP = 0.9  # so alike (difflib's ratio) that nobody else would call a variable of theirs so
_LEAVE_OUT = "All there are: rmq broker --help. Leave it out."
MAX_INT64 = (1 << 63) - 1
HIDDEN = "***"
_NAMES = {bool: "true or false", int: "a whole number", str: "a text"}
_OPENS_TOML = ('"', "'", "[", "{")  # no value of RocketMQ's begins so, but for those that are JSON
_DOTTED = "tls"  # how those of RocketMQ's names begin that have dots in them
_Settings = TypeVar("_Settings")


def setting(
    default: Any,
    meaning: str,
    *,
    unit: str = "",
    at_least: int = 1,
    at_most: int = MAX_INT64,
    live: bool = False,
    secret: bool = False,
) -> Any:
    """Declares a setting: its default, what it means in one sentence, and its unit (ms, bytes, ...) if it has one.

    A number is accepted from `at_least` to `at_most`: outside of them it would make no sense. What is `live` can be
    changed while the server runs. What is `secret` is in no text that shows the settings.
    """
    bounds = {"at_least": at_least, "at_most": at_most}
    metadata = {"meaning": meaning, "unit": unit, **bounds, "live": live, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """One setting as a reader of `--help` or the docs sees it."""

    name: str
    kind: type
    optional: bool
    default: Any
    meaning: str
    unit: str
    at_least: int
    at_most: int
    live: bool
    secret: bool

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def default_text(self) -> str | None:
        """The default as one would write it; None where there is none."""
        if self.default in (None, ""):
            return None
        return str(self.default).lower() if self.kind is bool else str(self.default)


def describe(kind: type) -> list[SettingInfo]:
    """All settings of a settings class, in the order in which it declares them; what it inherits comes last."""
    hints = typing.get_type_hints(kind)
    infos = []
    for item in sorted(dataclasses.fields(kind), key=lambda item: item.name not in kind.__annotations__):
        if "meaning" not in item.metadata:
            continue
        base, optional = _plain_type(hints[item.name])
        meta = item.metadata
        infos.append(SettingInfo(item.name, base, optional, item.default, **meta))
    return infos


def by_name(*kinds: type) -> dict[str, SettingInfo]:
    """The settings of these classes."""
    return {info.name: info for kind in kinds for info in describe(kind)}


def check_bounds(settings: Any) -> None:
    """Raises InvalidArgument for a number that makes no sense.

    Settings classes call it when they are made, so that nothing starts with such a number, wherever it comes from.
    """
    for info in describe(type(settings)):
        value = getattr(settings, info.name)
        if info.kind is int and not (info.optional and value is None):
            _check_bounds(info, value)


def _check_bounds(info: SettingInfo, value: object, where: str = "") -> None:
    if isinstance(value, int) and not isinstance(value, bool) and info.at_least <= value <= info.at_most:
        return
    is_above = isinstance(value, int) and value > info.at_most
    is_open = info.at_most == MAX_INT64 and not is_above
    accepted = f"{info.at_least} or more" if is_open else f"{info.at_least} to {info.at_most}"
    unit = f" {info.unit}" if info.unit else ""
    raise InvalidArgument(f"Setting {info.name} is {value!r}{where}, but must be {accepted}{unit}.")


def snake_case(name: str) -> str:
    """RocketMQ's `flushDiskType`, `tls.server.certPath` or a flag's `flush-disk-type` as we spell it:
    `flush_disk_type`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name.strip())
    return spaced.replace("-", "_").replace(".", "_").lower()


def camel_case(name: str) -> str:
    """The reverse of `snake_case`: `flushDiskType`, and `brokerIP1`, which RocketMQ spells so."""
    first, *rest = name.split("_")
    return first + "".join(word.upper() if word.startswith("ip") else word.capitalize() for word in rest)


def as_properties(*settings: Any) -> str:
    """Settings objects as the Java properties that RocketMQ's tools show: one `flushDiskType=ASYNC_FLUSH` a line.
    Instead of a secret, they say that there is one."""
    lines = []
    for config in settings:
        for info in describe(type(config)):
            value = getattr(config, info.name)
            text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            text = HIDDEN if text and info.secret else text
            lines.append(f"{camel_case(info.name)}={text}\n")
    return "".join(lines)


def parse_file(text: str) -> dict[str, Any]:
    """Reads TOML, or the Java properties of a stock `broker.conf`; keys come back in snake_case.

    Raises InvalidArgument naming the line that is neither, or a key that TOML has in both spellings.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as toml_error:
        return _parse_properties(text, toml_error)
    values: dict[str, Any] = {}
    for key, value in _with_dotted_keys(document):
        if (name := snake_case(key)) in values:
            raise InvalidArgument(f"Setting {name} stands there twice, in two spellings.", hint=f"Leave {key} out.")
        values[name] = value
    return values


def as_spelled(name: str, text: str) -> str:
    """The word of a settings file that became this name, as it stands there."""
    return next((word for word in re.findall(r"[\w.-]+", text) if snake_case(word) == name), name)


def load(
    kind: type[_Settings],
    *,
    file: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
    known_elsewhere: Iterable[str] = (),
) -> _Settings:
    """Makes a settings object of the class `kind`; flags beat the environment, which beats the file.

    `known_elsewhere` names keys of other settings classes that may stand in the same file. An RMQ_ variable that is no
    setting is somebody else's, unless it is nearly one: that is a slip of the pen. An empty variable counts as not set,
    and a flag of None was not given. Raises InvalidArgument for an unknown key (naming the nearest known one), a wrong
    value, or an empty one where that means nothing.
    """
    infos = by_name(kind)
    others = set(known_elsewhere)
    values: dict[str, Any] = {}
    for name, value in (file or {}).items():
        if name in infos:
            values[name] = _convert(infos[name], value, "in the file")
        elif name not in others:
            raise unknown_setting(name, [*infos, *others])
    _refuse_slips(environment or {}, {*infos, *others})
    for info in infos.values():
        variable = ENVIRONMENT_PREFIX + info.name.upper()
        if environment is not None and environment.get(variable):  # an empty one counts as not set, as usual
            values[info.name] = _convert(info, environment[variable], f"in the environment (${variable})")
    for name, value in (flags or {}).items():
        if value is not None:
            values[name] = _convert(infos[name], value, f"on the command line ({infos[name].flag})")
    return kind(**values)


def changed(settings: _Settings, texts: Mapping[str, Any]) -> _Settings:
    """The same settings with those of these that are among them. Raises InvalidArgument for a wrong value."""
    infos = by_name(type(settings))
    values = {name: requested(infos[name], text) for name, text in texts.items() if name in infos}
    return dataclasses.replace(settings, **values)  # type: ignore[type-var]


def requested(info: SettingInfo, text: Any) -> Any:
    """The value that a request gives a setting. Raises InvalidArgument where it can have no such value."""
    return _convert(info, text, "in the request")


def unknown_setting(name: str, known: Iterable[str], otherwise: str = _LEAVE_OUT) -> InvalidArgument:
    """The error for a key nobody knows, as it was spelled, with the nearest known name, spelled alike, or else what to
    do."""
    nearest = difflib.get_close_matches(snake_case(name), list(known), n=1)
    if not nearest:
        hint = otherwise
    elif name == snake_case(name):
        hint = f"Did you mean {nearest[0]!r}?"
    else:
        hint = f"Did you mean {camel_case(nearest[0])!r}? ({nearest[0]!r} is the same.)"
    return InvalidArgument(f"Unknown setting {name!r}.", hint=hint)


def _refuse_slips(environment: Mapping[str, str], known: set[str]) -> None:
    for variable in environment:
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if variable.startswith(ENVIRONMENT_PREFIX) and name not in known:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=_SLIP)
            if nearest:
                meant = ENVIRONMENT_PREFIX + nearest[0].upper()
                raise InvalidArgument(f"Environment variable {variable} is no setting.", hint=f"Did you mean {meant}?")


def _plain_type(hint: Any) -> tuple[type, bool]:
    if isinstance(hint, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        return _plain_type(members[0])[0], len(members) < len(typing.get_args(hint))
    if typing.get_origin(hint) is typing.Literal:
        return type(typing.get_args(hint)[0]), False
    return hint, False


def _convert(info: SettingInfo, value: Any, where: str) -> Any:
    if value == "" and info.default not in ("", None):
        hint = f"Leave it out for its default, {info.default}."
        raise InvalidArgument(f"Setting {info.name} is empty {where}.", hint=hint)
    try:
        converted = _to_kind(info.kind, value)
    except (TypeError, ValueError):
        wanted = _NAMES.get(info.kind, info.kind.__name__) + (f" ({info.unit})" if info.unit else "")
        shown = HIDDEN if info.secret else repr(value)
        raise InvalidArgument(f"Setting {info.name} is {shown} {where}, but must be {wanted}.") from None
    if info.kind is int:
        _check_bounds(info, converted, f" {where}")
    return converted


def _to_kind(kind: type, value: Any) -> Any:
    if kind is bool:
        return _to_bool(value)
    if kind is int:
        return _to_int(value)
    if kind is str and isinstance(value, (str, int, float)):
        return str(value)
    if kind is str and isinstance(value, dict):  # a table of TOML, for what RocketMQ has as JSON
        return json.dumps(value)
    return kind(value)


def _to_int(value: Any) -> int:
    """Python would make integers of true and 1.5 without a word."""
    if isinstance(value, bool | float):
        raise ValueError(value)
    return int(value)


def _to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("true", "false"):
        return word == "true"
    raise ValueError(value)


def _with_dotted_keys(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """RocketMQ's `tls.enable=true` is TOML, too, where all other lines of the file are: a key of the table `tls`."""
    for key, value in table.items():
        if isinstance(value, dict) and (before or key == _DOTTED):
            yield from _with_dotted_keys(value, f"{before}{key}.")
        else:
            yield before + key, value


def _parse_properties(text: str, toml_error: tomllib.TOMLDecodeError) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        key, separator, value = stripped.partition("=")
        if not separator or not re.fullmatch(r"[\w.-]+", key.strip()):
            raise InvalidArgument(
                f"Line {number} is neither TOML nor key=value: {stripped[:60]!r} ({toml_error}).",
                hint="Settings files are TOML, or a stock RocketMQ broker.conf.",
            )
        if value.strip().startswith(_OPENS_TOML) and not _is_json_object(value):
            raise InvalidArgument(f"It is not TOML, though it looks so: {toml_error}.")
        values[snake_case(key)] = value.strip()
    return values


def _is_json_object(text: str) -> bool:
    """So RocketMQ has users and credentials in its files."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
