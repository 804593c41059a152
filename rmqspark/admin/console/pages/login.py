"""/login: where tokens are set. A plain form: its answer is `sign_in`'s, and keeps where somebody wanted to go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.console.addresses import own
from rmqspark.admin.console.mounted import Mounted
from rmqspark.admin.console.nodes import Node, h

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame


async def build(frame: Frame) -> None:
    frame.head()
    Mounted(show(frame.visit.href("/login"), own(frame.visit.given.get("next")), failed="failed" in frame.visit.given))


def show(address: str, target: str, *, failed: bool) -> Node:
    problem = h("p", "This token is not known here.", role="alert", class_="problem") if failed else None
    token: dict[str, str | bool] = {
        "name": "token",
        "type": "password",
        "required": True,
        "autocomplete": "current-password",
        "autofocus": True,
    }
    hidden: dict[str, str | bool] = {"name": "next", "type": "hidden", "defaultValue": target}
    return h(
        "form",
        h("p", "The token is that of REST: RMQ_ADMIN_TOKEN may change things, RMQ_READ_TOKEN only look."),
        h("div", h("label", h("span", "Token"), Node("input", attributes=token)), class_="field"),
        Node("input", attributes=hidden),
        problem,
        h("div", h("button", "Sign in", type="submit", class_="button primary"), class_="actions"),
        method="post",
        action=address,
        class_="sign-in",
    )
