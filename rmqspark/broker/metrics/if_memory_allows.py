"""Counting what has happened must not undo it: where memory runs out, it is left out.

A message that is stored is told to be so, and a transaction that ended has ended, whatever becomes of its count.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

IF_MEMORY_ALLOWS: Final = suppress(MemoryError)
"""`with IF_MEMORY_ALLOWS:` around what is counted behind something that cannot be taken back."""
