"""Clusters by name, for `rmq` alone: which there are, and which is in use. Programs name their servers themselves.

They are in `contexts.json` in the user's configuration directory ($XDG_CONFIG_HOME/rmqspark, else ~/.config/rmqspark),
which nobody else may read: {"use": "prod", "contexts": {"prod": {"namesrv": "h1:9876;h2:9876"}}}. What else stands
there is kept.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from rmqspark.client.cluster.addresses import VARIABLES, parse_addresses
from rmqspark.errors import Conflict, InvalidArgument, NotFound

_FILE = "contexts.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def contexts_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where they are; the file need not be there. A directory that is not absolute counts as not set, as XDG has it."""
    said = environ.get("XDG_CONFIG_HOME", "")
    directory = said if os.path.isabs(said) else os.path.expanduser("~/.config")
    return Path(directory, "rmqspark", _FILE)


class Context(NamedTuple):
    """A cluster's name and its name servers."""

    name: str
    namesrv: str


class Contexts:
    """All there are, as in the file. `save` writes what was changed."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self.path = path
        self._document = document
        self._named: dict[str, Any] = document.setdefault("contexts", {})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Raises InvalidArgument for a file that is none of ours: whoever has named a cluster wants no other."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            document = {}
        except ValueError as error:
            raise _unreadable(path, str(error)) from None
        if not isinstance(document, dict) or not _are_contexts(document.get("contexts", {})):
            raise _unreadable(path, "it has no contexts with their name servers")
        return cls(path, document)

    @property
    def in_use(self) -> Context | None:
        """None where none was chosen. NotFound where it is not there."""
        name = self._document.get("use")
        return self.get(str(name)) if name else None

    def all(self) -> list[Context]:
        return [Context(name, self._named[name]["namesrv"]) for name in sorted(self._named)]

    def get(self, name: str) -> Context:
        if name not in self._named:
            there = ", ".join(sorted(self._named)) or "none"
            raise NotFound(f"There is no context {name!r}.", hint=f"There are: {there}. Add one with: rmq context add")
        return Context(name, self._named[name]["namesrv"])

    def add(self, name: str, namesrv: str) -> None:
        """InvalidArgument for what is no name or address, Conflict for a name that is taken."""
        if not _NAME.fullmatch(name):
            hint = "Use 1 to 64 letters, digits, - _ and ., a letter or digit first."
            raise InvalidArgument(f"{name[:64]!r} cannot be the name of a context.", hint=hint)
        if name in self._named:
            raise Conflict(
                f"Context {name!r} is there already, with {self.get(name).namesrv}.",
                hint=f"Take it away with: rmq context remove {name}",
            )
        self._named[name] = {"namesrv": ";".join(parse_addresses(namesrv, "--namesrv"))}

    def use(self, name: str | None) -> None:
        """None: no context is in use any more."""
        self._document["use"] = None if name is None else self.get(name).name

    def remove(self, name: str) -> None:
        """Also the one in use; then none is."""
        del self._named[self.get(name).name]
        if self._document.get("use") == name:
            self.use(None)

    def save(self) -> None:
        """Whole or not at all, and for the user alone. Raises OSError; InvalidArgument where there is no place."""
        if not self.path.is_absolute():
            raise InvalidArgument("This user has no home directory to keep contexts in.", hint="Set $XDG_CONFIG_HOME.")
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self.path.with_name(f".{_FILE}.{os.getpid()}")
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                json.dump(self._document, file, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self.path)
            _sync(self.path.parent)
        finally:
            beside.unlink(missing_ok=True)


def namesrv_of_context(named: str | None, environ: Mapping[str, str] = os.environ) -> Context | None:
    """The context that says where the name servers are: the one named, else the one in use, unless the environment
    says it. None where nothing does."""
    if named is None and any(environ.get(name) for name in VARIABLES):
        return None
    contexts = Contexts.read(contexts_file(environ))
    return contexts.in_use if named is None else contexts.get(named)


def _sync(directory: Path) -> None:
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _are_contexts(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(each, dict) and isinstance(each.get("namesrv"), str) for each in value.values()
    )


def _unreadable(path: Path, story: str) -> InvalidArgument:
    return InvalidArgument(f"{path} cannot be understood: {story}.", hint="Mend it, or delete it and add them anew.")
