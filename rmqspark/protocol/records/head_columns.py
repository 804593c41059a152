"""The heads of the records in a buffer: every field of all of them is one array.

They are gathered once, 88 bytes each; a field is then a column of that table. Records of equal size need no gathering
at all: their heads are a strided view of the buffer itself. An IPv6 host moves the fields behind it, and only for
batches that have one these are gathered at shifted places.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rmqspark.protocol.buffers.spans import gather, sliding, spacing
from rmqspark.protocol.records.record import WIDER_HOST, SysFlag
from rmqspark.protocol.records.record_heads import FIELD_AT, HEAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes, Positions


class HeadColumns:
    """Of records that lie within the buffer and have room for a head with IPv4 hosts; nothing else of them is checked.

    A *shift* is by how much IPv6 hosts move a field in each record, or 0 where there are none. Whoever asks for a field
    that is moved has checked that there is room for it.
    """

    def __init__(self, buffer: Bytes, positions: Positions, sizes: Positions) -> None:
        self.buffer: Final = buffer
        self.positions: Final = positions
        self.sizes: Final = sizes

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def size_of_all(self) -> int:
        """The size of two or more records that are equally long and follow each other; 0 of others."""
        size = spacing(self.positions)
        return size if size and (self.sizes == size).all() else 0

    @cached_property
    def table(self) -> NDArray[Any]:
        """The heads as they are with IPv4 hosts. It may be a copy: what is written into a record later is not in it."""
        if self.size_of_all:
            return np.ndarray((len(self),), HEAD, self.buffer, int(self.positions[0]), (self.size_of_all,))
        return sliding(self.buffer, f"V{HEAD.itemsize}")[self.positions].view(HEAD)

    @cached_property
    def sys_flags(self) -> NDArray[np.int32]:
        return self.field("sys_flag", np.int32)

    @cached_property
    def born_host_shift(self) -> Positions | int:
        """Of what lies behind the born host."""
        return self.wider(SysFlag.BORN_HOST_V6) if (self.sys_flags & SysFlag.BORN_HOST_V6).any() else 0

    @cached_property
    def hosts_shift(self) -> Positions | int:
        """Of what lies behind both hosts."""
        if not (self.sys_flags & SysFlag.HOSTS_MASK).any():
            return 0
        return self.wider(SysFlag.BORN_HOST_V6) + self.wider(SysFlag.STORE_HOST_V6)

    def wider(self, flag: int) -> Positions:
        """How many bytes wider a host is because of `flag`, per record."""
        return np.where(self.sys_flags & flag, WIDER_HOST, 0).astype(np.int64)

    def field(self, name: str, dtype: type[np.integer[Any]], shift: Positions | int = 0) -> NDArray[Any]:
        """As it was when the first was asked for."""
        return self.table[name].astype(dtype) if isinstance(shift, int) else self.gathered(name, dtype, shift)

    def gathered(self, name: str, dtype: type[np.integer[Any]], shift: Positions | int) -> NDArray[Any]:
        """As it is now."""
        return gather(self.buffer, self.positions + (FIELD_AT[name] + shift), dtype)
