"""What command headers are made of: a base and the two integer widths Java has.

A header is a struct whose field names are the names on the wire, so its codecs are derived and never typed out. On
the wire every value is a string (spec: remoting, section 2); `command.py` does the conversion both ways. A field with
the default None is one the sender may leave out, and one that is left out again when it is None.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Header(msgspec.Struct, gc=False):
    """Base of all request and response headers. They hold only scalars, so the garbage collector need not look."""
