"""Settings from all their sources: one file, the environment, and flags made from the settings themselves."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from rmqspark.admin.config import AdminConfig
from rmqspark.broker.config import BrokerConfig
from rmqspark.errors import InvalidArgument, NotThereYet, UnusableFile
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.remoting.limits import Limits
from rmqspark.settings import (
    ENVIRONMENT_PREFIX,
    SettingInfo,
    as_spelled,
    by_name,
    describe,
    load,
    parse_file,
    snake_case,
    unknown_setting,
)
from rmqspark.store.config import StoreConfig

# One file may hold the settings of all servers; each takes its own.
KINDS = (BrokerConfig, StoreConfig, NamesrvConfig, Limits, AdminConfig)
# In a stock broker.conf, but not settings of ours: --store says where the store is.
_STORE_ROOT, _COMMIT_LOG = "store_path_root_dir", "store_path_commit_log"
STORE_ROOT_VARIABLE = f"{ENVIRONMENT_PREFIX}{_STORE_ROOT.upper()}"
_KNOWN = frozenset({_STORE_ROOT, _COMMIT_LOG, *by_name(*KINDS)})

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="Settings: TOML, or a stock RocketMQ broker.conf as it is.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Listen beyond loopback without authentication.")]
_Settings = TypeVar("_Settings")


@dataclass(frozen=True, slots=True)
class Sources:
    """A settings file's content and the flags of the command line, keys in snake_case; None is a flag not given."""

    file: Mapping[str, Any]
    flags: Mapping[str, Any]

    def settings(self, kind: type[_Settings]) -> _Settings:
        """The settings of one class. InvalidArgument names a key that is unknown to all of them, or a wrong value."""
        own = {info.name for info in describe(kind)}
        flags = {name: value for name, value in self.flags.items() if name in own}
        return load(kind, file=self.file, environment=os.environ, flags=flags, known_elsewhere=_KNOWN - own)

    def says(self, name: str) -> bool:
        """Whether the file or a flag has this setting, whatever the environment has."""
        return name in self.file or self.flags.get(name) is not None

    def store_root(self) -> Path | None:
        """Where the environment says that the store is, else the file (storePathRootDir); None where neither does."""
        root = self.file.get(_STORE_ROOT)
        if root == "":
            raise InvalidArgument("storePathRootDir is empty.", hint="Name a directory, or leave it out.")
        log = self.file.get(_COMMIT_LOG)
        if log is not None and (root is None or Path(log) != Path(root, "commitlog")):
            raise InvalidArgument(
                f"storePathCommitLog {log!r} is not the folder commitlog of storePathRootDir.",
                hint="A store keeps its log in its own directory: leave storePathCommitLog out.",
            )
        said = os.environ.get(STORE_ROOT_VARIABLE) or root
        return None if said is None else Path(said)


def read_config(path: Path | None) -> dict[str, Any]:
    """The settings of a file, keys in snake_case; nothing where no file is named."""
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors of Windows begin a file with a byte order mark
        return _without_strange(path, text, parse_file(text))
    except OSError as error:
        raise InvalidArgument(f"--config {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidArgument(f"--config {path} is not a text file.") from None
    except (InvalidArgument, NotThereYet) as error:
        raise type(error)(f"--config {path}: {error.message}", hint=error.hint) from None


def _without_strange(path: Path, text: str, file: dict[str, Any]) -> dict[str, Any]:
    """What no server of ours has is told, where RocketMQ has it, and else an error: a slip of the pen."""
    strange = [name for name in file if name not in _KNOWN]
    if not strange:
        return file
    from rmqspark.cli.servers.rocketmq_settings import only_rocketmqs

    aside = only_rocketmqs(file, strange)
    left = {snake_case(name) for name in aside}
    if wrong := [name for name in strange if name not in left]:
        raise unknown_setting(as_spelled(wrong[0], text), _KNOWN)
    print(f"Of {path} is left aside what RocketMQ alone has: {', '.join(aside)}.", file=sys.stderr)
    return {name: value for name, value in file.items() if name not in left}


def with_settings(
    *kinds: type, leave_out: frozenset[str] = frozenset(), hidden: bool = False
) -> Callable[..., Callable[..., None]]:
    """Gives a verb one flag for each setting of the settings classes; it receives them as the mapping `settings`.

    A setting whose flag the verb already declares in its own words is passed through that one, via `leave_out`.
    With `hidden` the flags work but fill no screen of `--help`.
    """

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        infos = {name: info for name, info in by_name(*kinds).items() if name not in leave_out}
        own = [p for p in inspect.signature(verb, eval_str=True).parameters.values() if p.name != "settings"]

        @functools.wraps(verb)
        def wrapped(**given: Any) -> None:
            settings = {name: given.pop(name) for name in infos}
            with _files_as_named(infos, settings):
                verb(**given, settings=settings)

        flags = [_flag(info, hidden=hidden) for info in infos.values()]
        wrapped.__signature__ = inspect.Signature([*own, *flags])  # type: ignore[attr-defined]
        wrapped.__annotations__ = {p.name: p.annotation for p in [*own, *flags]}
        return wrapped

    return decorate


@contextmanager
def _files_as_named(infos: Mapping[str, SettingInfo], flags: Mapping[str, Any]) -> Iterator[None]:
    """Servers do not know where a setting came from; here a file that cannot be used is named as its user did."""
    around = {name for name in infos if os.environ.get(f"RMQ_{name.upper()}")}  # a verb may set some for its children
    try:
        yield
    except UnusableFile as error:
        if flags.get(error.name) is not None:
            raise UnusableFile(infos[error.name].flag, error.story, hint=error.hint) from None
        if error.name in around:
            raise UnusableFile(f"$RMQ_{error.name.upper()}", error.story, hint=error.hint) from None
        raise


def _flag(info: SettingInfo, *, hidden: bool) -> inspect.Parameter:
    """Settings come in as text and are converted in one place, `settings.load`, whatever source they came from."""
    meaning = info.meaning[0].upper() + info.meaning[1:].rstrip(".")
    unit = f" [{info.unit}]" if info.unit else ""
    default = "" if info.default_text is None else f" Default: {info.default_text}."
    option = typer.Option(
        info.flag,
        metavar=info.kind.__name__.upper(),
        help=f"{meaning}{unit}.{default}",
        show_default=False,
        hidden=hidden,
    )
    return inspect.Parameter(
        info.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, option]
    )
