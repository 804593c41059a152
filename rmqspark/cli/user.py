"""`rmq user`: who is served where servers ask who asks."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.options import Json, Namesrv, Yes, confirm
from rmqspark.cli.terminal.output import print_json, print_table
from rmqspark.cli.terminal.silent import telling
from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.client.administration.admin_access import User

app = VerbGroup(help="Users of a cluster with authentication. Example: rmq user create ann --password-file ann.txt")

Username = Annotated[str, typer.Argument(help="The user's name: its access key.")]
Type = Annotated[str | None, typer.Option("--type", help="normal, or super: one that may do everything.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="Its first line is the password, the user's secret key; - is standard input. Others see what is typed as "
        "an option, so there is none.",
    ),
]


@app.command("create")
def create(
    username: Username,
    type_: Type = "normal",
    password_file: PasswordFile = None,
    exist_ok: Annotated[
        bool, typer.Option("--exist-ok", help="Where it is there already, it is given this password and type.")
    ] = False,
    namesrv: Namesrv = None,
) -> None:
    """Makes a user, whose password it asks for.

    Every broker has it then, and every name server that has users; where some have it already, since others were away,
    --exist-ok makes all have the same.

    Example: rmq user create ann --password-file ann.txt
    """
    from rmqspark.client.admin import AdminClient

    password = _read(password_file) if password_file is not None else _asked()
    with AdminClient(namesrv) as admin:
        admin.create_user(username, password, type_ or "normal", exist_ok=exist_ok)
    if exist_ok:
        rights = f"rmq acl list --user {quote(username)}"
        print(f"User {username} has this password and type on all servers. Its rights: {rights}")
    else:
        rights = f"rmq acl create {quote(username)} --help"
        print(f"User {username} created. It has no rights yet unless it is super: {rights}")


@app.command("update")
def update(
    username: Username,
    type_: Type = None,
    password_file: PasswordFile = None,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether it is served.", show_default=False)
    ] = None,
    namesrv: Namesrv = None,
) -> None:
    """Changes what is given of a user. Example: rmq user update ann --disable"""
    from rmqspark.client.admin import AdminClient

    password = None if password_file is None else _read(password_file)
    with AdminClient(namesrv) as admin:
        admin.update_user(username, password=password, user_type=type_, enabled=enable)
    print(f"User {username} updated.")


@app.command("delete")
def delete(username: Username, yes: Yes = False, namesrv: Namesrv = None) -> None:
    """Deletes a user with all its rights. Example: rmq user delete ann"""
    from rmqspark.client.admin import AdminClient

    with AdminClient(namesrv) as admin:
        confirm(f"Delete user {username} and all it may do?", yes=yes)
        admin.delete_user(username)
    print(f"User {username} deleted.")


@app.command("list")
def list_users(
    name: Annotated[str, typer.Option(help="Only those with this in their name.")] = "",
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Lists the users, and which servers have them. Example: rmq user list --json"""
    from rmqspark.client.admin import AdminClient

    with telling() as silence, AdminClient(namesrv) as admin:
        users = admin.users(name, on_silent=silence)
    _show(users, silence.reasons, as_json=as_json, empty="No users.")


@app.command("describe")
def describe(username: Username, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Shows one user; its password is shown to nobody. Example: rmq user describe ann"""
    from rmqspark.client.admin import AdminClient

    with telling() as silence, AdminClient(namesrv) as admin:
        users = admin.user(username, on_silent=silence)
    _show(users, silence.reasons, as_json=as_json, empty="")


def _show(users: Sequence[User], silent: dict[str, str], *, as_json: bool, empty: str) -> None:
    if as_json:
        print_json([_document(user) | {"silent": silent} for user in users])
        return
    rows = [(user.username, user.user_type, user.enabled, ", ".join(user.servers)) for user in users]
    print_table(("user", "type", "enabled", "on"), rows, empty=empty)


def _document(user: User) -> dict[str, Any]:
    return {
        "username": user.username,
        "type": user.user_type,
        "enabled": user.enabled,
        "servers": list(user.servers),
    }


def _read(path: Path) -> str:
    try:
        line = sys.stdin.buffer.readline() if str(path) == "-" else path.read_bytes().partition(b"\n")[0]
        password = line.decode("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InvalidArgument(f"--password-file {path} cannot be read: {reason}.") from None
    if not password.strip():
        raise InvalidArgument(f"--password-file {path} has no password in its first line.")
    return password


def _asked() -> str:
    if not sys.stdin.isatty():
        raise InvalidArgument("No password was given.", hint="Say --password-file FILE, or - for standard input.")
    try:
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    except typer.Abort:  # Ctrl-C, or Ctrl-D: as anywhere else
        raise KeyboardInterrupt from None
