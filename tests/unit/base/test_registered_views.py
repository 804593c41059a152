"""What a view that is registered reads."""

from __future__ import annotations

from typing import Any

import pytest

from rmqspark.errors import InvalidArgument
from rmqspark.spark import register


class Session:
    """As much of a session, its reader and its frame as is used; `loaded` is what was asked for."""

    def __init__(self) -> None:
        self.read = self
        self.loaded: list[str | None] = []

    def format(self, _: str) -> Session:
        return self

    def options(self, **_: Any) -> Session:
        return self

    def load(self, path: str | None = None) -> Session:
        self.loaded.append(path)
        return self

    def createOrReplaceTempView(self, _: str) -> None:
        pass


@pytest.mark.parametrize(
    ("topic", "options", "path"),
    [
        (None, {}, "v"),
        ("orders", {"namesrv": "h:1"}, "orders"),
        (None, {"subscribe": "orders"}, None),
        (None, {"SUBSCRIBEPATTERN": "o.*"}, None),
        (None, {"assign": "{}"}, None),
        (None, {"store": "/backup"}, None),
    ],
)
def test_a_view_is_over_what_is_named(topic: str | None, options: dict[str, str], path: str | None) -> None:
    """A topic, or an option that says what to read; else the topic that is called as the view."""
    session = Session()
    register(session, "v", topic, **options)
    assert session.loaded == [path]


def test_a_topic_beside_an_option_that_names_one() -> None:
    """Which of them is meant is not guessed."""
    with pytest.raises(InvalidArgument, match="topic 'orders' and option 'subscribePattern' both say what to read"):
        register(Session(), "v", "orders", subscribepattern="o.*")
