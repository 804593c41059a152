"""Options as a Spark user types them: strings under case-insensitive names, read once into Python values.

A table of `Option` says for each name what it means, what it accepts and what it is when absent; parsing, error
messages and the tables in docs/spark.md all come from it. An option nobody knows is an error that names the nearest
one: a mistyped option that is silently ignored shows itself only as wrong data.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_DURATION_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_INT64 = (1 << 63) - 1
_MOST_SHOWN = 200  # characters of a value that is wrong: what is wrong with it is said behind it
_TIME_WITHOUT_SIGNS = (
    r"(?P<day>(?:19[7-9]|20[0-9])[0-9](?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]))"
    r"(?P<clock>(?:[01][0-9]|2[0-3])[0-5][0-9](?:[0-5][0-9])?)"
)
_YEAR_AND_MONTH = r"(?P<year>19[7-9][0-9]|20[0-9][0-9])(?P<month>0[1-9]|1[0-2])?"
_NONE: Mapping[str, str] = MappingProxyType({})
_SIZE_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}


class Option(NamedTuple):
    """One option. `read` turns its text into a value or raises ValueError saying what is accepted."""

    name: str
    default: str  # as the docs show it
    meaning: str
    read: Callable[[str], Any]
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All that it may be called by."""
        return (self.name, *self.aliases)


class OptionTable(NamedTuple):
    """All options of one side (source or sink).

    `foreign` (lower-case names; one that ends with a dot stands for all that begin so) maps names that users bring from
    elsewhere to what to write instead. Spark lower-cases what users type, so errors spell a known name as the docs do.
    """

    owner: str  # "source" or "sink", for messages
    options: tuple[Option, ...]
    foreign: Mapping[str, str] = _NONE
    ignored: frozenset[str] = frozenset()  # lower-case names that Spark itself puts among the options

    def read(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The values of the options given, by canonical name. Raises InvalidArgument."""
        named = {name.lower(): (name, option) for option in self.options for name in option.names}
        values: dict[str, Any] = {}
        typed_as: dict[str, str] = {}
        for typed, text in given.items():
            if typed.lower() in self.ignored:
                continue
            name, option = named.get(typed.lower()) or self._refuse(typed)
            if option.name in typed_as:
                raise InvalidArgument(
                    f"Options {typed_as[option.name]!r} and {name!r} mean the same; give one of them."
                )
            typed_as[option.name] = name
            values[option.name] = self._value(option, name, text)
        return values

    def name_of(self, typed: str) -> str | None:
        """The name of the option that is typed so, in whatever case or by an alias; None where there is none."""
        same = (each.name for each in self.options if typed.lower() in {name.lower() for name in each.names})
        return next(same, None)

    def markdown(self) -> str:
        """The options as the table that docs/spark.md shows."""
        rows = ["| option | default | meaning |", "| --- | --- | --- |"]
        for option in self.options:
            also = f" (also {', '.join(f'`{alias}`' for alias in option.aliases)})" if option.aliases else ""
            meaning = option.meaning.replace("|", "\\|")
            rows.append(f"| `{option.name}`{also} | {option.default} | {meaning} |")
        return "\n".join(rows)

    def _value(self, option: Option, name: str, text: str) -> Any:
        try:
            return option.read(text.strip())
        except ValueError as error:
            shown = repr(text) if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]!r} …"
            raise InvalidArgument(f"Option {name!r} cannot be {shown}: {error}") from error

    def _refuse(self, typed: str) -> NoReturn:
        raise InvalidArgument(f"The rmq {self.owner} has no option {typed!r}.", hint=self._suggestion(typed.lower()))

    def _suggestion(self, name: str) -> str:
        for called in (name, f"kafka.{name}"):  # Kafka's client has its settings without that, and so have its users
            if hint := self._foreign_hint(called):
                return hint
        if name.startswith("kafka."):
            return "Settings of Kafka's client have no meaning here."
        known = [option.name for option in self.options]
        nearest = most_like(name, known, cutoff=0.5)
        return f"Did you mean {nearest!r}?" if nearest else f"It has: {', '.join(known)}."

    def _foreign_hint(self, name: str) -> str | None:
        families = (prefix for prefix in self.foreign if prefix.endswith(".") and name.startswith(prefix))
        return self.foreign.get(name) or self.foreign.get(next(families, ""))


def exclusive(values: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raises InvalidArgument if more than one of `names` was given."""
    present = [name for name in names if name in values]
    if len(present) > 1:
        raise InvalidArgument(f"Options {present[0]!r} and {present[1]!r} exclude each other; give one of them.")


def most_like(typed: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The one of `known` that comes nearest to what was typed, in whatever case; None where none is near."""
    from difflib import get_close_matches  # of use to errors alone

    spelling = {name.lower(): name for name in known}
    nearest = get_close_matches(typed.lower(), spelling, n=1, cutoff=cutoff)
    return spelling[nearest[0]] if nearest else None


def text(value: str) -> str:
    if not value:
        raise ValueError("it is empty.")
    return value


def directory(value: str) -> str:
    """Reads a path, also as Spark's users may write it, `file:///data`; no other file system can be opened."""
    scheme = re.match(r"([a-z][a-z0-9+.-]+):/", text(value), re.IGNORECASE)
    if scheme is None:
        return value
    if scheme[1].lower() != "file":
        raise ValueError("a path on this machine is accepted, that of a mounted file system too.")
    place = re.fullmatch(r"file:(?://(?:localhost)?)?(/(?!/).*)", value, re.IGNORECASE | re.DOTALL)
    if place is None:
        raise ValueError("three slashes are accepted: file:///data.")
    from urllib.parse import unquote  # of use to these alone

    return unquote(place[1])


def boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false is accepted.")
    return value.lower() == "true"


def choice(*accepted: str) -> Callable[[str], str]:
    """Reads one of a few words, in any case, into the spelling given here."""
    spelling = {word.lower(): word for word in accepted}

    def read(value: str) -> str:
        if value.lower() not in spelling:
            raise ValueError(f"one of {', '.join(accepted)} is accepted.")
        return spelling[value.lower()]

    return read


def duration_ms(value: str) -> int:
    """Reads `15m`, `30s`, `500ms` and a bare number of milliseconds into milliseconds."""
    match = re.fullmatch(r"(\d{1,12})\s*(ms|s|min|m|h|d|)", value.lower(), re.ASCII)
    if match is None:
        raise ValueError("a time such as 15m, 30s or 500ms is accepted.")
    return int(match[1]) * _DURATION_UNITS_MS[match[2] or "ms"]


def integer(at_least: int, at_most: int | None = None) -> Callable[[str], int]:
    """Reads a whole number, of 64 bits at most."""
    accepted = f"{at_least} or more" if at_most is None else f"{at_least} to {at_most}"
    largest = _MAX_INT64 if at_most is None else at_most

    def read(value: str) -> int:
        number = int(value) if re.fullmatch(r"[+-]?[0-9]{1,19}", value) else None
        if number is None or not at_least <= number <= largest:
            raise ValueError(f"a whole number, {accepted}, is accepted.")
        return number

    return read


def size_bytes(at_least: int, at_most: int) -> Callable[[str], int]:
    """Reads `512k`, `1m`, `1048576` into bytes."""

    def read(value: str) -> int:
        match = re.fullmatch(r"(\d{1,12})\s*([a-zA-Z]{0,2})", value, re.ASCII)
        if match is None or match[2].lower() not in _SIZE_UNITS:
            raise ValueError("a number of bytes is accepted, or one with k, m or g.")
        size = int(match[1]) * _SIZE_UNITS[match[2].lower()]
        if not at_least <= size <= at_most:
            raise ValueError(f"between {at_least} and {at_most} bytes are accepted.")
        return size

    return read


def names(value: str) -> tuple[str, ...]:
    """Reads a comma-separated list; blanks around names do not count."""
    found = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not found:
        raise ValueError("at least one name is needed.")
    return found


def json_object(value: str, accepted: str = "a JSON object") -> dict[str, Any]:
    """Reads a JSON object in which each name stands once: of two, readers of JSON take the last without a word.

    ValueError says what is `accepted`.
    """
    try:
        found = json.loads(value, object_pairs_hook=_once_each)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON ({error}); {accepted} is accepted.") from error
    if not isinstance(found, dict):
        raise ValueError(f"{accepted} is accepted.")
    return found


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} stands there twice")
        found[name] = value
    return found


class Moment(NamedTuple):
    """A point in time: `at_ms` since 1970 UTC, or `ago_ms` before whenever it is asked."""

    at_ms: int | None = None
    ago_ms: int = 0

    def resolve(self, now_ms: int) -> int:
        """Not before 1970: there are no messages, and a broker takes a number of 64 bits."""
        return max(0, now_ms - self.ago_ms if self.at_ms is None else self.at_ms)

    def is_after(self, other: Moment) -> bool:
        """Whether it is later than the other whenever both are asked; False where that depends on when."""
        if self.at_ms is None or other.at_ms is None:
            return self.at_ms is other.at_ms and self.ago_ms < other.ago_ms
        return self.at_ms > other.at_ms


def _day_or_milliseconds(digits: str) -> str:
    """How to write either that eight digits may mean."""
    as_milliseconds = datetime.fromtimestamp(int(digits) / 1000, UTC).replace(tzinfo=None)
    return (
        f"eight digits may be a day or milliseconds since 1970. {digits[:4]}-{digits[4:6]}-{digits[6:]} is accepted "
        f"for the day, {as_milliseconds.isoformat(timespec='milliseconds')} for the milliseconds."
    )


def moment(value: str) -> Moment:
    """Reads milliseconds since 1970, an ISO-8601 time (UTC unless it says otherwise), or one before now: `-10m`.

    Eight digits are refused: `20260131` is a day to ISO 8601, and would be a morning in 1970 as milliseconds. So are
    nine to eleven: they are seconds, time.time()'s with a fraction, and as milliseconds they lie before March 1973; and
    twelve or fourteen that are a time of day without its signs, as milliseconds in 1976 or 2612; and a year, alone or
    with its month.
    """
    if early := re.fullmatch(_YEAR_AND_MONTH, value):
        raise ValueError(f"it looks like a year. {early['year']}-{early['month'] or '01'}-01 is accepted.")
    if re.fullmatch(r"[0-9]{8}", value):
        raise ValueError(_day_or_milliseconds(value))
    if seconds := re.fullmatch(r"([0-9]{9,11})(?:\.([0-9]+))?", value):
        as_milliseconds = seconds[1] + (seconds[2] or "")[:3].ljust(3, "0")
        raise ValueError(f"it looks like seconds since 1970. Milliseconds are accepted: {as_milliseconds}.")
    if time := re.fullmatch(_TIME_WITHOUT_SIGNS, value):
        written = f"{time['day'][:4]}-{time['day'][4:6]}-{time['day'][6:]}T" + ":".join(re.findall("..", time["clock"]))
        raise ValueError(f"it looks like a time without its signs. {written} is accepted.")
    if re.fullmatch("[0-9]{16}|[0-9]{19}", value):
        raise ValueError(f"it looks like micro- or nanoseconds since 1970. Milliseconds are accepted: {value[:13]}.")
    if re.fullmatch("[0-9]{1,15}", value):
        return Moment(at_ms=int(value))
    if re.fullmatch("[0-9]+", value):
        raise ValueError("milliseconds since 1970 have fewer digits.")  # to ISO 8601 it would be a time long ago
    if relative := re.fullmatch(r"-(\d{1,12})(ms|s|min|m|h|d)", value, re.ASCII):
        return Moment(ago_ms=int(relative[1]) * _DURATION_UNITS_MS[relative[2]])
    try:
        when = datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError("milliseconds since 1970, an ISO-8601 time, or -10m, -2h, -1d is accepted.") from error
    return Moment(at_ms=((when if when.tzinfo else when.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1))
