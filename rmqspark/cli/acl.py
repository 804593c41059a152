"""`rmq acl`: what users may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.options import Json, Namesrv, Yes, confirm
from rmqspark.cli.terminal.output import print_json, print_table
from rmqspark.cli.terminal.silent import telling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.client.administration.admin_access import Right

app = VerbGroup(help="What users may do. Example: rmq acl create ann --resource Topic:orders --actions Pub,Sub")

Username = Annotated[str, typer.Argument(help="The user's name.")]
Policy = Annotated[str, typer.Option("--policy", help="custom, or default: what counts where no custom one fits.")]


@app.command("create")
def create(
    username: Username,
    resource: Annotated[
        list[str], typer.Option(help="Topic:orders, Group:bill*, Cluster:*, or * for everything; may be repeated.")
    ],
    actions: Annotated[str, typer.Option(help="Of Pub, Sub, Create, Update, Delete, Get, List; or All.")],
    deny: Annotated[bool, typer.Option("--deny", help="It is denied, and not allowed.")] = False,
    source_ip: Annotated[
        list[str] | None, typer.Option(help="Only from there: 10.1.2.3 or 10.0.0.0/8; may be repeated.")
    ] = None,
    policy: Policy = "custom",
    namesrv: Namesrv = None,
) -> None:
    """Says what a user may do, or may not.

    It takes the place of what was said of the same resource.

    Example: rmq acl create ann --resource Topic:orders --resource Group:billing --actions Sub,Get
    """
    from rmqspark.client.admin import AdminClient

    with AdminClient(namesrv) as admin:
        admin.create_acl(
            username,
            resource,
            [action.strip() for action in actions.split(",") if action.strip()],
            decision="deny" if deny else "allow",
            source_ips=source_ip or (),
            policy_type=policy,
        )
    print(f"{'Denied' if deny else 'Allowed'} {username}: {actions} of {', '.join(resource)}.")


@app.command("delete")
def delete(
    username: Username,
    resource: Annotated[str | None, typer.Option(help="Only what was said of this one; otherwise all.")] = None,
    policy: Policy = "custom",
    yes: Yes = False,
    namesrv: Namesrv = None,
) -> None:
    """Takes back what was said of a user. Example: rmq acl delete ann --resource Topic:orders"""
    from rmqspark.client.admin import AdminClient

    with AdminClient(namesrv) as admin:
        confirm(f"Take back what {username} may do of {resource or 'everything'}?", yes=yes)
        admin.delete_acl(username, resource, policy_type=policy)
    print(f"Nothing is said of {username} and {resource or 'anything'} any more.")


@app.command("list")
def list_acls(
    user: Annotated[str, typer.Option(help="Only of users with this in their name.")] = "",
    resource: Annotated[str, typer.Option(help="Only of resources with this in theirs.")] = "",
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Lists what users may do, and which servers go by it. Example: rmq acl list --resource orders"""
    from rmqspark.client.admin import AdminClient

    with telling() as silence, AdminClient(namesrv) as admin:
        rights = admin.acls(user, resource, on_silent=silence)
    _show(rights, silence.reasons, as_json=as_json, empty="Nothing is allowed to anybody but super users.")


@app.command("describe")
def describe(username: Username, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Shows what one user may do. Example: rmq acl describe ann"""
    from rmqspark.client.admin import AdminClient

    with telling() as silence, AdminClient(namesrv) as admin:
        rights = admin.rights(username, on_silent=silence)
    _show(rights, silence.reasons, as_json=as_json, empty="Nothing is allowed to it, unless it is a super user.")


def _show(rights: Sequence[Right], silent: dict[str, str], *, as_json: bool, empty: str) -> None:
    if as_json:
        print_json([_document(right) | {"silent": silent} for right in rights])
        return
    rows = [
        (
            right.username,
            right.resource,
            ",".join(right.actions),
            right.decision,
            ", ".join(right.source_ips) or "anywhere",
            right.policy_type,
            ", ".join(right.servers),
        )
        for right in rights
    ]
    print_table(("user", "resource", "actions", "decision", "from", "policy", "on"), rows, empty=empty)


def _document(right: Right) -> dict[str, Any]:
    return {
        "username": right.username,
        "resource": right.resource,
        "actions": list(right.actions),
        "decision": right.decision,
        "sourceIps": list(right.source_ips),
        "policyType": right.policy_type,
        "servers": list(right.servers),
    }
