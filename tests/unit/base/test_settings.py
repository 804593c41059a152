"""Settings from files, environment and flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.errors import InvalidArgument
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.remoting.limits import Limits
from rmqspark.settings import SettingInfo, as_properties, describe, load, parse_file, setting, snake_case
from rmqspark.store.config import StoreConfig


@dataclass(frozen=True)
class Sample:
    flush_disk_type: str = setting("ASYNC_FLUSH", "When a send is answered.")
    listen_port: int = setting(10911, "Port of the broker.")
    enable_property_filter: bool = setting(True, "SQL92 filters.")
    broker_ip1: str | None = setting(None, "What clients are told.")
    broker_role: Literal["ASYNC_MASTER", "SYNC_MASTER"] = setting("ASYNC_MASTER", "Role.")
    sync_flush_timeout: int = setting(5000, "Longest wait for the disk.", unit="ms")


NUMBERS = [
    pytest.param(kind, info, id=f"{kind.__name__} {info.name}")
    for kind in (BrokerConfig, StoreConfig, NamesrvConfig, Limits, SendConfig)
    for info in describe(kind)
    if info.kind is int
]


@pytest.mark.parametrize(("kind", "info"), NUMBERS)
def test_no_number_that_makes_no_sense_is_taken(kind: type, info: SettingInfo) -> None:
    """Below what is accepted, negative or beyond 64 bits: told by its name, wherever it comes from."""
    for wrong in (info.at_least - 1, -5, 1 << 63):
        with pytest.raises(InvalidArgument, match=rf"{info.name} is {wrong} in the file, but must be "):
            load(kind, file={info.name: wrong})
        with pytest.raises(InvalidArgument, match=f"{info.name} is {wrong}, but must be "):
            kind(**{info.name: wrong})
    assert info.default is None or info.at_least <= info.default <= info.at_most


def test_a_number_out_of_bounds_is_told_with_its_unit_and_where_it_stands() -> None:
    """As a flag, a variable, and one that has an upper end."""
    with pytest.raises(InvalidArgument) as by_flag:
        load(Sample, flags={"sync_flush_timeout": "0"})
    assert by_flag.value.message == (
        "Setting sync_flush_timeout is 0 on the command line (--sync-flush-timeout), but must be 1 or more ms."
    )
    with pytest.raises(InvalidArgument, match=r"\(\$RMQ_DISK_MAX_USED_SPACE_RATIO\), but must be 1 to 100 percent"):
        load(StoreConfig, environment={"RMQ_DISK_MAX_USED_SPACE_RATIO": "101"})
    with pytest.raises(InvalidArgument, match="send_msg_timeout is '5', but must be"):
        SendConfig(send_msg_timeout="5")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rocketmq", "ours"),
    [
        ("flushDiskType", "flush_disk_type"),
        ("brokerIP1", "broker_ip1"),
        ("mappedFileSizeCommitLog", "mapped_file_size_commit_log"),
        ("flush-disk-type", "flush_disk_type"),
        ("listen_port", "listen_port"),
    ],
)
def test_names_are_understood_in_every_spelling(rocketmq: str, ours: str) -> None:
    """RocketMQ's spelling, a flag's and ours name the same setting."""
    assert snake_case(rocketmq) == ours


def test_a_stock_broker_conf_is_taken_as_it_is() -> None:
    """Java properties with comments, spaces and camelCase keys load like TOML."""
    text = "# a comment\n\nflushDiskType = SYNC_FLUSH\nbrokerIP1=10.0.0.1\nlistenPort=10999\n"
    loaded = load(Sample, file=parse_file(text))
    assert loaded == Sample(flush_disk_type="SYNC_FLUSH", broker_ip1="10.0.0.1", listen_port=10999)


def test_toml_is_the_file_of_choice() -> None:
    """TOML values keep their types."""
    assert (
        load(Sample, file=parse_file("listen_port = 1\nenable_property_filter = false")).enable_property_filter is False
    )


def test_flags_beat_the_environment_which_beats_the_file() -> None:
    """The nearest source wins, and a flag that was not given does not count."""
    chosen = load(
        Sample,
        file={"listen_port": 1, "flush_disk_type": "A", "broker_ip1": "file"},
        environment={"RMQ_LISTEN_PORT": "2", "RMQ_FLUSH_DISK_TYPE": "B", "RMQ_NAMESRV": "somebody else's"},
        flags={"listen_port": 3, "flush_disk_type": None},
    )
    assert (chosen.listen_port, chosen.flush_disk_type, chosen.broker_ip1) == (3, "B", "file")


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    """A typing error in a file is an error, and says what was probably meant."""
    with pytest.raises(InvalidArgument, match="flush_disk_typ.*flush_disk_type"):
        load(Sample, file={"flush_disk_typ": "x"})
    with pytest.raises(InvalidArgument, match="rmq broker --help. Leave it out"):  # one that RocketMQ alone has
        load(Sample, file={"send_message_thread_pool_nums": "16"})


def test_keys_of_other_settings_classes_may_stand_in_the_same_file() -> None:
    """One file configures broker and store."""
    assert load(Sample, file={"store_key": 1}, known_elsewhere=["store_key"]) == Sample()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"listen_port": "many"}, "listen_port.*must be a whole number"),
        ({"listen_port": True}, "listen_port is True.*must be a whole number"),
        ({"listen_port": 1.5}, "listen_port is 1.5.*must be a whole number"),
        ({"sync_flush_timeout": []}, r"sync_flush_timeout.*must be a whole number \(ms\)"),
        ({"enable_property_filter": "perhaps"}, "enable_property_filter.*must be true or false"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_must_be(values: dict[str, object], message: str) -> None:
    """The error names setting, value, source and unit."""
    with pytest.raises(InvalidArgument, match=message):
        load(Sample, file=values)


@pytest.mark.parametrize(
    ("sources", "where"),
    [
        ({"file": {"listen_port": "x"}}, "in the file"),
        ({"environment": {"RMQ_LISTEN_PORT": "x"}}, r"in the environment \(\$RMQ_LISTEN_PORT\)"),
        ({"flags": {"listen_port": "x"}}, r"on the command line \(--listen-port\)"),
    ],
)
def test_a_wrong_value_says_where_it_came_from(sources: dict[str, dict[str, object]], where: str) -> None:
    """Of three places to look in, the error names the one."""
    with pytest.raises(InvalidArgument, match=f"listen_port is 'x' {where}"):
        load(Sample, **sources)


def test_a_line_that_is_neither_toml_nor_properties_is_named() -> None:
    """A broken file points at its line."""
    with pytest.raises(InvalidArgument, match="Line 2"):
        parse_file("a=b c\nnot a setting\n")


def test_broken_toml_is_not_taken_for_a_broker_conf() -> None:
    """A quote that is not closed is no part of a value: the parser's words with their line are told."""
    with pytest.raises(InvalidArgument, match="not TOML.*line 2"):
        parse_file('broker_name = "a"\nflush_disk_type = "SYNC_FLUSH\n')
    with pytest.raises(InvalidArgument, match="not TOML.*end of document"):
        parse_file("delete_when = [\n")


def test_a_setting_in_both_spellings_is_refused() -> None:
    """In TOML a key stands once; of a broker.conf Java takes the last, and so do we."""
    with pytest.raises(InvalidArgument, match="listen_port stands there twice") as refused:
        parse_file("listenPort = 1\nlisten_port = 2")
    assert refused.value.hint == "Leave listen_port out."
    assert parse_file("storePathRootDir = a\nlistenPort=1\nlistenPort=2") == {
        "store_path_root_dir": "a",
        "listen_port": "2",
    }


def test_each_setting_describes_itself() -> None:
    """Help and docs are made from the same place as the values."""
    info = {item.name: item for item in describe(Sample)}
    assert info["sync_flush_timeout"].unit == "ms"
    assert info["broker_ip1"].optional
    assert info["broker_role"].kind is str
    assert info["flush_disk_type"].flag == "--flush-disk-type"


def test_settings_show_as_the_properties_rocketmqs_tools_read() -> None:
    """Its names, true and false, nothing for what is not set; what is shown can be read back."""
    text = as_properties(Sample(listen_port=1))
    assert text.splitlines()[:4] == [
        "flushDiskType=ASYNC_FLUSH",
        "listenPort=1",
        "enablePropertyFilter=true",
        "brokerIP1=",
    ]
    shown = {name: value for name, value in parse_file(text).items() if value}
    assert load(Sample, file=shown) == Sample(listen_port=1)


def test_a_slip_in_an_environment_variable_is_an_error() -> None:
    """A variable that is nearly a setting names the setting; one that is somebody else's is left alone."""
    with pytest.raises(InvalidArgument, match="RMQ_FLUSH_DISK_TYP is no setting.*RMQ_FLUSH_DISK_TYPE"):
        load(Sample, environment={"RMQ_FLUSH_DISK_TYP": "SYNC_FLUSH"})
    assert load(Sample, environment={"RMQ_NAMESRV": "h:1", "RMQ_LOG_LEVEL": "debug", "RMQ_USER": "ada"}) == Sample()
