"""The answer to a request of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from rmqspark.errors import HeaderError
from rmqspark.protocol.faults import from_response
from rmqspark.protocol.learned import learned
from rmqspark.whole_numbers import whole_number

if TYPE_CHECKING:
    from rmqspark.protocol.commands.command import Command
    from rmqspark.remoting.reply import Buffer

H = TypeVar("H", bound=msgspec.Struct)


class Response:
    """A response as it came. The body is in memory of its own and may be kept; views of it keep it alive.

    `code` 0 is success; whether another is an error depends on the request, so the caller asks by `raise_for_code`.
    """

    __slots__ = ("body", "code", "fields", "opaque", "remark", "version")

    def __init__(
        self, code: int, opaque: int, remark: str | None, version: int, fields: dict[str, str], body: Buffer
    ) -> None:
        self.code = code
        self.opaque = opaque
        self.remark = remark
        self.version = version
        self.fields = fields
        self.body = body

    @classmethod
    def of(cls, command: Command, body: Buffer) -> Response:
        """From a decoded command and a body whose memory it may keep."""
        return cls(command.code, command.opaque, command.remark, command.version, command.fields, body)

    def __repr__(self) -> str:
        return (
            f"Response(code={self.code}, remark={self.remark!r}, fields={self.fields}, body of {len(self.body)} bytes)"
        )

    def header(self, kind: type[H]) -> H:
        """The fields as a header class. Raises HeaderError naming a field that is missing or of the wrong kind."""
        try:
            return msgspec.convert(self.fields, learned(kind), strict=False)
        except msgspec.ValidationError as error:
            raise HeaderError(f"The answer does not fit {kind.__name__}: {error}") from None

    def raise_for_code(self, *, topic: str = "", group: str = "") -> Response:
        """This response if its code is SUCCESS; raises the error that its code stands for otherwise.

        `topic` and `group` are those of the request, for the error to name.
        """
        if self.code != 0:
            raise from_response(self.code, self.remark, topic=topic, group=group, next_offset=self._next_offset())
        return self

    def _next_offset(self) -> int:
        """Where PULL_OFFSET_MOVED says to go on; -1 if it does not."""
        offset = whole_number(self.fields.get("nextBeginOffset", ""))
        return -1 if offset is None else offset
