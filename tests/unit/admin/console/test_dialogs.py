"""What a dialog says of a change that was not done, and how it closes."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from rmqspark.admin.console.dialogs import attempted, close_button
from rmqspark.admin.mishaps import UNFORESEEN
from rmqspark.admin.schemas.topics import NewTopic
from rmqspark.errors import Conflict


@pytest.mark.parametrize(
    ("wrong", "story"),
    [
        (None, ""),
        (lambda: Conflict("It exists.", hint="Change it."), "It exists. Change it."),
        (lambda: NewTopic.model_validate({"queues": 1}), "topic: Field required"),
        (lambda: KeyError("secret"), UNFORESEEN),
    ],
)
def test_what_kept_a_change_from_being_done(wrong, story: str) -> None:
    """Whatever it was, or the dialog would say that it is working on it for ever; a bug is in the log, and no more of
    it on the page."""

    async def change() -> None:
        if wrong is not None:
            raise wrong()

    with capture_logs() as logs:
        assert asyncio.run(attempted(change())) == story
    assert [each["event"] for each in logs] == ["a change failed"] * (story == UNFORESEEN)


def test_close_is_the_browsers_own() -> None:
    """So it closes the dialog that it is in, and no other that was opened since."""
    form = close_button()
    (button,) = form.children
    assert (form.tag, form.attributes["method"], button.attributes["type"]) == ("form", "dialog", "submit")
