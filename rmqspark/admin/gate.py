"""What every request passes, also a WebSocket's, before anything looks at it: host, origin, size; and the headers that
every answer has. Pure ASGI: it reads no body that is too large. Security: S16."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from rmqspark.admin.problems import LARGER, problem
from rmqspark.whole_numbers import whole_number

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from rmqspark.admin.config import AdminConfig

MOST_BODY_BYTES: Final = 1 << 20
_TOO_LARGE: Final = f"A request has at most {MOST_BODY_BYTES:,} bytes."
_MOST_LET_GO_BYTES: Final = 16 << 20
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_CLOSE_POLICY: Final = 1008
# What the console and /docs may load: our own, and nothing from elsewhere. NiceGUI writes scripts into its pages and
# evaluates what its server sends, so that 'unsafe-inline' and 'unsafe-eval' cannot go; what is sent is ours, texts stay
# texts.
_CONSOLE: Final = (
    b"default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    b"font-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    b"frame-ancestors 'none'; object-src 'none'"
)
_NOTHING: Final = b"default-src 'none'; frame-ancestors 'none'"
_PROGRAMS: Final = ("/api/", "/healthz", "/readyz", "/metrics", "/openapi.json")


class Gate:
    """Lets a request through, or says why not."""

    def __init__(self, app: ASGIApp, config: AdminConfig) -> None:
        self._app = app
        self._hosts = config.hosts
        self._named_hosts = config.named_hosts
        self._base_path = config.base_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        # A proxy may take the path that it has us under away, or leave it: routes are found either way.
        # What is asked may not say where it is; NiceGUI would believe it.
        headers = [(name, value) for name, value in scope["headers"] if name != b"x-forwarded-prefix"]
        scope = {**scope, "root_path": self._base_path, "headers": headers}
        if scope.get("method") == "HEAD":  # of whoever watches; the server sends no body to one
            scope["method"] = "GET"
        refusal = self._refusal(scope)
        if refusal is None:
            too_large = HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
            await self._app(scope, bounded(receive, MOST_BODY_BYTES, too_large), _with_headers(scope, send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": _CLOSE_POLICY, "reason": refusal[1]})
        else:
            status, detail, hint = refusal
            await _let_go(dict(scope["headers"]), receive)
            # What has two lengths may end elsewhere for a proxy in front: nothing behind it is taken for a request.
            close = {"Connection": "close"} if status is HTTPStatus.BAD_REQUEST else None
            answer = problem(status, status.name.lower(), detail, hint=hint, instance=scope["path"], headers=close)
            await answer(scope, receive, _with_headers(scope, send))

    def _refusal(self, scope: Scope) -> tuple[HTTPStatus, str, str] | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = _host_of("//" + headers.get(b"host", ""))
        hint = "Names it is to be known by are told with --admin-hosts."
        if host not in self._hosts:
            return HTTPStatus.MISDIRECTED_REQUEST, f"Host {host!r:.80} is not one of ours.", hint
        origin = headers.get(b"origin")
        if origin is not None and not self._is_ours(origin, headers[b"host"]):
            return HTTPStatus.FORBIDDEN, f"A page of {origin!r:.80} may not ask here.", hint
        if b"content-length" in headers and b"transfer-encoding" in headers:
            hint = "Send Content-Length, or chunks without it."
            return HTTPStatus.BAD_REQUEST, "A request says in one way how long it is, not in two.", hint
        length = whole_number(headers.get(b"content-length", "0"))
        if length is None or length > MOST_BODY_BYTES:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE, LARGER
        return None

    def _is_ours(self, origin: str, host: str) -> bool:
        """Whether a page of that origin is one of ours: what else this machine serves, on another port, is not."""
        return _host_of(origin) in self._named_hosts or origin.lower().partition("://")[2] == host.lower()


def _host_of(url: str) -> str | None:
    """The host without its port, in lower case; None where it cannot be told, as for the origin `null`."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


async def _let_go(headers: dict[bytes, bytes], receive: Receive) -> None:
    """Takes in what is on its way and forgets it, piece by piece: a client that still sends when it is answered and
    closed finds a reset in the place of the answer. Not where it asks before it sends, or tells of no end of it."""
    length = whole_number(headers.get(b"content-length", b"0").decode("latin-1"))
    is_sent = length is not None and 0 < length <= _MOST_LET_GO_BYTES and b"expect" not in headers
    while is_sent:
        is_sent = (await receive()).get("more_body", False)


def bounded(receive: Receive, most_bytes: int, too_large: Exception | None = None) -> Receive:
    """What comes of a request, up to where its body has more than that: then it has ended, or whoever reads on gets
    the error `too_large`."""
    taken = 0

    async def taking() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > most_bytes:
                if too_large is not None:
                    raise too_large
                return {"type": "http.disconnect"}
        return message

    return taking


def path_of(scope: Scope) -> str:
    """Without the path that a proxy has us under, where it leaves that: whole steps of it, for `/topics` is not under
    `/t`."""
    path: str = scope["path"]
    rest = path.removeprefix(scope.get("root_path", ""))
    return path if rest and not rest.startswith("/") else rest


def _with_headers(scope: Scope, send: Send) -> Send:
    policy = _policy(path_of(scope))
    headers = (*_HEADERS, (b"content-security-policy", policy))

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {name for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *((n, v) for n, v in headers if n not in there)]
        await send(message)

    return with_headers


def _policy(path: str) -> bytes:
    return _NOTHING if path.startswith(_PROGRAMS) else _CONSOLE
