"""The metrics of several brokers as one exposition. Pure: texts in, text out.

Prometheus takes each metric once: one HELP, one TYPE, and all samples behind them. Samples are kept as they came, as
each says which broker it is of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_UP: Final = "rmqspark_broker_up"
_SUFFIXES: Final = ("_bucket", "_count", "_sum")


class _Family:
    """`header` are its lines of HELP and TYPE."""

    def __init__(self) -> None:
        self.header: dict[str, str] = {}
        self.samples: list[str] = []


def exposition(texts: Mapping[str, str]) -> bytes:
    """What each broker answered to RMQ_METRICS, by its name; "" of one that did not answer. Which did is told, too."""
    families: dict[str, _Family] = {}
    for text in texts.values():
        for name, keyword, line in _lines(text):
            family = families.setdefault(name, _Family())
            if keyword:
                family.header.setdefault(keyword, line)
            else:
                family.samples.append(line)
    families[_UP] = _up(texts)
    lines = [line for name in sorted(families) for line in _written(families[name])]
    return "".join(f"{line}\n" for line in lines).encode()


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """The family that a line is about, HELP or TYPE or for a sample "", and the line."""
    family = ""
    for line in text.split("\n"):  # not `splitlines`: label values may have other ends of lines in them
        if line.startswith(("# HELP ", "# TYPE ")):
            _, keyword, family, *_ = line.split(" ", 3)
            yield family, keyword, line
        elif line and not line.startswith("#"):
            yield (family if _is_of(family, line) else _name_of(line)), "", line


def _is_of(family: str, line: str) -> bool:
    name = _name_of(line)
    return name == family or any(name == family + suffix for suffix in _SUFFIXES)


def _name_of(line: str) -> str:
    return line.partition("{")[0].partition(" ")[0]


def _up(texts: Mapping[str, str]) -> _Family:
    family = _Family()
    family.header = {
        "HELP": f"# HELP {_UP} 1: the broker answered.",
        "TYPE": f"# TYPE {_UP} gauge",
    }
    family.samples = [f'{_UP}{{node_id="{_escaped(name)}"}} {int(bool(text))}' for name, text in sorted(texts.items())]
    return family


def _written(family: _Family) -> Iterator[str]:
    if family.samples:
        yield from (family.header[keyword] for keyword in ("HELP", "TYPE") if keyword in family.header)
        yield from family.samples


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
