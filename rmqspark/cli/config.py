"""`rmq config`: the settings of a broker, and changing those that can be while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.options import Json, Namesrv, Yes, confirm
from rmqspark.cli.terminal.output import print_facts, print_json, print_table, safe
from rmqspark.errors import Conflict, InvalidArgument
from rmqspark.settings import requested, snake_case, unknown_setting

if TYPE_CHECKING:
    from rmqspark.client.admin import AdminClient
    from rmqspark.settings import SettingInfo

app = VerbGroup(help="A broker's settings. Example: rmq config get --broker broker-a file_reserved_time")

Broker = Annotated[str | None, typer.Option(help="The broker's name; not needed where there is one.")]
_STOCK_NOTE = "RocketMQ does not say whether it goes by it now or from its next start on."
_OUR_NOTE = "It holds until the broker is started again: in its settings file, or as a flag, it stays."


class Setting(NamedTuple):
    """One setting as a broker tells it, under both names, and what we know of it: nothing, if `info` is None."""

    name: str
    brokers_name: str
    value: str
    info: SettingInfo | None


@app.command("get")
def get(
    key: Annotated[str | None, typer.Argument(help="Only this one, in either spelling.")] = None,
    broker: Broker = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Shows settings: value, default, meaning. Examples: rmq config get | rmq config get file_reserved_time"""
    from rmqspark.client.admin import AdminClient

    with AdminClient(namesrv) as admin:
        name = _only_broker(admin, broker)
        settings = _settings(admin, name)
    if key is not None:
        settings = [_named(settings, key)]
    if as_json:
        documents = [_document(setting) for setting in settings]
        print_json(documents if key is None else documents[0])
    elif key is not None:
        print_facts(_facts(settings[0]))
    else:
        columns = ("setting", "value", "default", "unit", "changes", "meaning")
        print_table(columns, [_row(setting) for setting in settings], empty=f"Broker {name} tells no settings.")


@app.command("set")
def set_(
    key: Annotated[str, typer.Argument(help="The setting, in either spelling.")],
    value: Annotated[str, typer.Argument(help="What it is to be.")],
    broker: Broker = None,
    yes: Yes = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Changes a setting while the broker runs. Example: rmq config set file_reserved_time 48 --broker broker-a"""
    from rmqspark.client.admin import AdminClient

    with AdminClient(namesrv) as admin:
        name = _only_broker(admin, broker)
        before = _named(_settings(admin, name), key)
        is_ours = admin.is_ours(name)
        if is_ours and before.info is not None and not before.info.live:
            requested(before.info, value)
            raise Conflict(
                f"Setting {before.name} cannot be changed while broker {name} runs.",
                hint=f"Restart it with {before.info.flag} {value}.",
            )
        confirm(f"Set {before.name} of {name} from {before.value or 'nothing'} to {value}?", yes=yes)
        admin.set_broker_config(name, before.brokers_name, value)
        after = _named(_settings(admin, name), key)
    if as_json:
        print_json({"broker": name, "setting": before.name, "before": before.value, "value": after.value})
    else:
        print(safe(f"{before.name} of {name} is {after.value} now; it was {before.value or 'not set'}."))
        print(_OUR_NOTE if is_ours else _STOCK_NOTE)


def _only_broker(admin: AdminClient, named: str | None) -> str:
    if named is not None:
        return named
    names = [each.name for each in admin.brokers()]
    if len(names) != 1:
        there = ", ".join(names) or "none is registered"
        raise InvalidArgument("It is not said which broker is meant.", hint=f"Name one with --broker: {there}.")
    return names[0]


def _settings(admin: AdminClient, broker_name: str) -> list[Setting]:
    """As the broker lists them; known are those that we have, too, by RocketMQ's names."""
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.settings import by_name
    from rmqspark.store.config import StoreConfig

    known = by_name(BrokerConfig, StoreConfig)
    told = admin.broker_config(broker_name)
    return [Setting(name := snake_case(each), each, value, known.get(name)) for each, value in told.items()]


def _named(settings: list[Setting], key: str) -> Setting:
    wanted = snake_case(key)
    for setting in settings:
        if setting.name == wanted:
            return setting
    raise unknown_setting(key, [setting.name for setting in settings], otherwise="Those there are: rmq config get")


def _row(setting: Setting) -> tuple[Any, ...]:
    info = setting.info
    if info is None:
        return setting.name, setting.value, "-", "-", "-", "-"
    return setting.name, setting.value, info.default_text or "-", info.unit or "-", _changes(info), info.meaning


def _facts(setting: Setting) -> dict[str, Any]:
    facts: dict[str, Any] = {"setting": setting.name, "RocketMQ's name": setting.brokers_name, "value": setting.value}
    if setting.info is None:
        return facts
    info = setting.info
    unit = {"unit": info.unit} if info.unit else {}
    return facts | unit | {"default": info.default_text or "-", "changes": _changes(info), "meaning": info.meaning}


def _changes(info: SettingInfo) -> str:
    return "while it runs" if info.live else "at a start"


def _document(setting: Setting) -> dict[str, Any]:
    info = setting.info
    return {
        "setting": setting.name,
        "rocketmqName": setting.brokers_name,
        "value": setting.value,
        "default": info.default_text if info else None,
        "unit": info.unit or None if info else None,
        "live": info.live if info else None,
        "meaning": info.meaning if info else None,
    }
