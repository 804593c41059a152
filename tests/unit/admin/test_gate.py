"""What every request passes before anything looks at it."""

from __future__ import annotations

import pytest

from rmqspark.admin.gate import path_of


@pytest.mark.parametrize(
    ("path", "under", "own"),
    [
        ("/rmq/topics", "/rmq", "/topics"),  # the proxy leaves it
        ("/topics", "/rmq", "/topics"),  # or takes it away
        ("/rmq", "/rmq", ""),
        ("/rmq/rmq", "/rmq", "/rmq"),
        ("/topics", "/t", "/topics"),
        ("/topics/orders", "", "/topics/orders"),
    ],
)
def test_the_path_that_a_proxy_has_us_under(path: str, under: str, own: str) -> None:
    """Whole steps of it, and no letters of another."""
    assert path_of({"path": path, "root_path": under}) == own
