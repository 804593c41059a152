"""/brokers/{broker}: how it is, and its settings, of which those that are live can be changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.admin.console import words
from rmqspark.admin.console.brokers_tables import slaves_table
from rmqspark.admin.console.filters import Change, flag_filter, text_filter
from rmqspark.admin.console.forms import Form, Said, field
from rmqspark.admin.console.live import Live
from rmqspark.admin.console.nodes import Child, Node, h
from rmqspark.admin.console.parts import button, empty, facts, figures, group, section, state
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, table
from rmqspark.admin.reads import cluster as look
from rmqspark.admin.schemas.cluster import BrokerView, SettingView
from rmqspark.errors import RequestTimeout, Unreachable
from rmqspark.protocol.names import MASTER_ID

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit


class _Document(NamedTuple):
    """`settings` is None where it does not answer."""

    broker: BrokerView
    settings: list[SettingView] | None


async def build(frame: Frame) -> None:
    visit, name = frame.visit, frame.visit.params["broker"]
    frame.head(frame.code_button(lambda: _snippets(visit, name)), crumbs=[("Brokers", "/brokers")])
    live: Live[_Document] = frame.part(lambda: _read(visit, name), lambda document: show(frame, document, live), 5)
    await live.begin()


def _read(visit: Visit, name: str) -> _Document:
    broker = look.broker(visit.cluster, name)
    try:
        return _Document(broker, look.settings(visit.cluster, name, visit.desk.known_settings))
    except (Unreachable, RequestTimeout):
        return _Document(broker, None)


def show(frame: Frame, document: _Document, live: Live[_Document]) -> Node:
    visit, broker = frame.visit, document.broker

    async def redraw() -> None:
        live.redraw()

    return group(
        figures(
            [
                ("In", words.rate(broker.in_per_second), "messages a second"),
                ("Out", words.rate(broker.out_per_second), "messages a second"),
                ("Disk", words.percent(broker.disk_used), f"{words.size(broker.disk_free_bytes)} free"),
                ("Topics", words.number(broker.topics), f"{words.counted(broker.queues, 'queue')}"),
            ]
        ),
        section("Broker", _facts(visit, broker)),
        *([section("Slaves", slaves_table(visit, [broker]))] if broker.slaves else []),
        section("Settings", *_settings_part(frame, document, live.refresh, redraw)),
    )


def _settings_part(frame: Frame, document: _Document, changed: Change, redraw: Change) -> list[Node]:
    if document.settings is None:
        return [empty("It does not answer, so its settings are unknown.")]
    filters = h(
        "div",
        text_filter(frame.visit, "q", "Setting or meaning contains", redraw),
        flag_filter(frame.visit, "live", "Only live ones", redraw),
        class_="filters",
    )
    return [filters, _settings(frame, document.broker.broker_name, document.settings, changed)]


def _facts(visit: Visit, broker: BrokerView) -> Node:
    known: dict[str, Child] = {
        "State": state(broker.state, "good" if broker.state == "ok" else "bad"),
        "Cluster": broker.cluster,
        "Role": broker.role or words.UNKNOWN,
        **{_who(number): h("span", address, class_="mono") for number, address in broker.addresses.items()},
        "Version": broker.version or words.UNKNOWN,
        "Flush": broker.flush_disk_type or words.UNKNOWN,
        "Started": visit.time(broker.started_at),
        "Messages in since then": words.number(broker.messages_in),
        "Messages out since then": words.number(broker.messages_out),
    }
    return facts(known)


def _who(number: str) -> str:
    """Of an address."""
    return "Master" if number == str(MASTER_ID) else f"Slave {number}"


def _settings(frame: Frame, broker_name: str, settings: list[SettingView], changed: Change) -> Node:
    visit = frame.visit
    said = visit.given.get("q", "").casefold()
    shown = [
        each
        for each in settings
        if said in f"{each.setting} {each.rocketmq_name} {each.meaning or ''}".casefold()
        and (each.live or not visit.given.get("live"))
    ]
    if not shown:
        return empty("No setting is like that.")
    columns: list[Column[SettingView]] = [
        Column("Setting", lambda each: each.setting, lambda each: each.setting, "setting"),
        Column("Value", lambda each: h("span", each.value or "(empty)", class_="mono")),
        Column("Default", _default),
        Column("Unit", lambda each: each.unit or "none"),
        Column(
            "Takes effect",
            lambda each: words.UNKNOWN if each.live is None else "at once" if each.live else "after a restart",
        ),
        Column("Meaning", lambda each: h("div", each.meaning or words.UNKNOWN, class_="body-cell")),
    ]
    if visit.may_change:
        columns.append(Column("Do", lambda each: _change_button(frame, broker_name, each, changed)))
    return table(visit, "Settings", columns, shown, lambda each: each.rocketmq_name)


def _default(each: SettingView) -> str:
    """Of ours it is known that there is none."""
    return each.default or (words.UNKNOWN if each.meaning is None else "none")


def _change_button(frame: Frame, broker: str, each: SettingView, changed: Change) -> Child:
    if not each.live:
        return h("span", "fixed", class_="note")
    return button("Change", lambda: _change(frame, broker, each, changed), aria_label=f"Change {each.setting}")


def _change(frame: Frame, broker: str, each: SettingView, changed: Change) -> None:
    async def do(said: Said) -> None:
        value = said["value"].strip()
        await frame.visit.act(lambda who: frame.visit.desk.actions.set_config(who, broker, {each.setting: value}))
        frame.tell(f"{each.setting} of {broker} is now {value}, until its next start; was {each.value}.")
        await changed()

    fields: list[Child] = [
        h("p", each.meaning or ""),
        field(
            f"Value{f' in {each.unit}' if each.unit else ''}",
            "value",
            each.value,
            hint=f"Default: {_default(each)}.",
            focus=True,
        ),
    ]
    Form(frame, f"Change {each.setting} of {broker}", fields, "Change", do)


def _snippets(visit: Visit, name: str) -> Snippets:
    return Snippets(visit.where.cli("config", "get", "--broker", name), visit.where.rest("config", name))
