"""Settings of servers from one file, the environment and flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.admin.config import AdminConfig
from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.servers.rocketmq_settings import _NAMES, _REFUSED
from rmqspark.cli.servers.setting_flags import KINDS, Sources, read_config
from rmqspark.cli.verbs import LoadedVerbs
from rmqspark.errors import InvalidArgument, NotThereYet
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.remoting.limits import Limits
from rmqspark.settings import describe, snake_case
from rmqspark.store.config import StoreConfig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in KINDS:
        for info in describe(kind):
            monkeypatch.delenv(f"RMQ_{info.name.upper()}", raising=False)


def test_one_file_serves_every_server(tmp_path: Path) -> None:
    """Broker, store, name server and limits each take their own keys, in either spelling."""
    path = tmp_path / "rmq.toml"
    path.write_text("region_id = 'here'\nfileReservedTime = 1\nmax_brokers = 2\nmax-connections = 3\n")
    sources = Sources(read_config(path), {})
    assert sources.settings(BrokerConfig).region_id == "here"
    assert sources.settings(StoreConfig).file_reserved_time == 1
    assert sources.settings(NamesrvConfig).max_brokers == 2
    assert sources.settings(Limits).max_connections == 3


@pytest.mark.parametrize("line", ["file_reserved_time = 1", "fileReservedTime=1\nbrokerName=broker-a"])
def test_a_byte_order_mark_is_no_part_of_a_setting(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rmq.conf"
    path.write_text(line, encoding="utf-8-sig")
    assert int(read_config(path)["file_reserved_time"]) == 1


def test_flags_that_were_not_given_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is no value: the environment counts, and before it the file."""
    monkeypatch.setenv("RMQ_LISTEN_PORT", "1234")
    sources = Sources({"listen_port": 1, "region_id": "file"}, {"listen_port": None, "region_id": None})
    assert sources.settings(BrokerConfig) == BrokerConfig(listen_port=1234, region_id="file")


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As elsewhere: the file counts, or the default."""
    monkeypatch.setenv("RMQ_REGION_ID", "")
    monkeypatch.setenv("RMQ_LISTEN_PORT", "")
    assert Sources({"region_id": "file"}, {}).settings(BrokerConfig) == BrokerConfig(region_id="file")


@pytest.mark.parametrize("name", ["region_id", "bind_address", "delete_when", "listen_port"])
def test_an_empty_setting_is_not_the_default(name: str) -> None:
    """What a template left empty is named; only a setting whose default is empty may be."""
    kind = StoreConfig if name == "delete_when" else BrokerConfig
    with pytest.raises(InvalidArgument, match=f"Setting {name} is empty in the file.*its default, "):
        Sources({name: ""}, {}).settings(kind)
    assert Sources({"namesrv_addr": "", "broker_ip1": ""}, {}).settings(BrokerConfig).namesrv_addr == ""


def test_an_empty_store_root_is_not_this_directory() -> None:
    """storePathRootDir names a directory, or is left out."""
    with pytest.raises(InvalidArgument, match="storePathRootDir is empty"):
        Sources({"store_path_root_dir": ""}, {}).store_root()


def test_a_key_that_no_server_has_is_named_with_its_file(tmp_path: Path) -> None:
    """A typing error in the file of one server is found whichever server reads it."""
    path = tmp_path / "rmq.toml"
    path.write_text("max_broker = 2\n")
    with pytest.raises(InvalidArgument, match=r"rmq.toml: Unknown setting 'max_broker'.*'max_brokers'"):
        read_config(path)


def test_an_unknown_key_is_told_as_it_stands_in_the_file(tmp_path: Path) -> None:
    """Who looks for it in the file finds it, and what is right in the spelling that is used there."""
    path = tmp_path / "broker.conf"
    path.write_text("# brokers\nbrokerName = a\nflushDiskTipe=SYNC_FLUSH\n")
    with pytest.raises(InvalidArgument, match="Unknown setting 'flushDiskTipe'. Did you mean 'flushDiskType'?"):
        read_config(path)


def test_what_rocketmq_alone_has_is_left_aside_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broker.conf as people have it: threads, buffers, spellings of long ago."""
    path = tmp_path / "broker.conf"
    path.write_text(
        "brokerName=broker-x\nmapedFileSizeCommitLog=1073741824\nsendMessageThreadPoolNums=64\nstoreType=default\n"
    )
    assert read_config(path) == {"broker_name": "broker-x"}
    told = capsys.readouterr().err
    assert told == f"Of {path} is left aside what RocketMQ alone has: {', '.join(LEFT_ASIDE)}.\n"


def test_what_only_old_versions_had_is_left_aside_as_rocketmq_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that are copied from page to page name each part of the store; RocketMQ goes by storePathRootDir alone."""
    path = tmp_path / "broker.conf"
    path.write_text(
        "storePathRootDir=/s\nstorePathConsumeQueue=/s/consumequeue\nstorePathIndex=/s/index\n"
        "storeCheckpoint=/s/checkpoint\nabortFile=/s/abort\ncheckTransactionMessageEnable=false\n"
    )
    assert read_config(path) == {"store_path_root_dir": "/s"}
    assert "storePathConsumeQueue, storePathIndex, storeCheckpoint, abortFile" in capsys.readouterr().err


LEFT_ASIDE = ("mapedFileSizeCommitLog", "sendMessageThreadPoolNums", "storeType")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("enableDLegerCommitLog=true", "The log is not replicated by DLedger."),
        ("storeType=defaultRocksDB", "A store keeps RocketMQ's files"),
        ("aclEnable=true", "RocketMQ's ACL 1.0 is not there."),
        ("brokerPermission=4", "A broker is read and written: 6."),
    ],
)
def test_what_changes_what_a_broker_is_is_not_left_aside(tmp_path: Path, line: str, hint: str) -> None:
    """Nobody believes to have what is not there; switched off it is nothing."""
    path = tmp_path / "broker.conf"
    path.write_text(f"{line}\n")
    with pytest.raises(NotThereYet, match=f"broker.conf: .*{hint}"):
        read_config(path)
    for harmless in (f"{line.partition('=')[0]}=false", "brokerPermission=6"):
        path.write_text(f"{harmless}\n")
        assert read_config(path) == {}


@pytest.mark.parametrize("name", [*_NAMES.split(), *_REFUSED])
def test_nothing_that_a_server_of_ours_has_would_be_left_aside(name: str) -> None:
    """The list is of what is not there."""
    ours = {info.name for kind in KINDS for info in describe(kind)}
    assert snake_case(name) not in ours


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """Bytes of something else are not searched for settings."""
    path = tmp_path / "rmq.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidArgument, match="is not a text file"):
        read_config(path)


def test_a_stock_file_s_paths_agree_or_are_refused(tmp_path: Path) -> None:
    """storePathRootDir is where the store is, if its log is inside it as it always is with us."""
    assert Sources({}, {}).store_root() is None
    inside = {"store_path_root_dir": "/data", "store_path_commit_log": "/data/commitlog"}
    assert str(Sources(inside, {}).store_root()) == "/data"
    with pytest.raises(InvalidArgument, match="leave storePathCommitLog out"):
        Sources({**inside, "store_path_commit_log": "/fast/commitlog"}, {}).store_root()


@pytest.mark.parametrize(
    ("verb", "kinds"),
    [
        ("namesrv", (NamesrvConfig, Limits)),
        ("broker", (BrokerConfig, StoreConfig, Limits)),
        ("admin", (AdminConfig,)),
        ("up", (BrokerConfig, StoreConfig, Limits, AdminConfig)),
    ],
)
def test_each_setting_has_a_flag_of_its_name(verb: str, kinds: tuple[type, ...]) -> None:
    """Whatever else it may be called: `--port` is `--listen-port`, too, which errors and hints name."""
    flags = {flag for option in LoadedVerbs()[verb].params for flag in option.opts}
    lacking = {info.flag for kind in kinds for info in describe(kind)} - flags
    assert ("--store-path-root-dir" in flags) is (verb == "broker")
    assert lacking == ({"--namesrv-addr"} if verb == "up" else set())  # which has a name server of its own
