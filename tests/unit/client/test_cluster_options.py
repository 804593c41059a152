"""Source and sink are told of their cluster in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.errors import NotSupported
from rmqspark.sink.option_table import SINK_OPTIONS
from rmqspark.sink.options import SinkOptions
from rmqspark.source.option_table import SOURCE_OPTIONS
from rmqspark.source.options import read_options

if TYPE_CHECKING:
    from rmqspark.options import OptionTable


@pytest.mark.parametrize("table", [SOURCE_OPTIONS, SINK_OPTIONS], ids=["source", "sink"])
@pytest.mark.parametrize("name", ["namesrv", "NAMESRV", "nameServer", "namesrvAddr"])
def test_name_servers_go_by_three_names(table: OptionTable, name: str) -> None:
    """Ours, and those that RocketMQ's own connectors use."""
    assert table.read({name: " h1:9876;h2:9876 "}) == {"namesrv": "h1:9876;h2:9876"}


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("accessKey", "access control"),
        ("secretKey", "access control"),
        ("tlsEnabled", "TLS"),
        ("TLS.truststore", "TLS"),
    ],
)
def test_access_control_is_refused_on_both_sides(name: str, lacks: str) -> None:
    """What a later version will have is never ignored; who asks for TLS is told of TLS."""
    with pytest.raises(NotSupported, match=f"{name!r} is not there yet.*without {lacks};"):
        read_options({"subscribe": "t", name: "x"})
    with pytest.raises(NotSupported, match=f"{name!r} is not there yet.*without {lacks};"):
        SinkOptions.parse({"topic": "t", name: "x"}, streaming=False)
