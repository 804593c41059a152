"""What a disk remembers: contents by sectors, names by directories, each as the process sees it and as it is durable.

The idea (reliability, section 3.3): the process sees every change at once, the disk only promises what was synced. At a
power loss each change since then survives or not, on its own: a 512-byte sector of a file's content, a file's size, the
making, moving or removing of a name. A move is one change, as it is in the journal of every file system we run on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.entropy import Entropy

PAGE_BYTES = 4096
SECTOR_BYTES = 512
_ALL_SECTORS = 0xFF  # the eight sectors of a page, one bit each


@dataclass(slots=True)
class _Behind:
    """A page that the disk has not got in full: what is durable of it, and which sectors a sync would bring up."""

    durable: bytes | None
    dirty_sectors: int = 0


class Inode:
    """The content of a file: sparse pages, absent ones reading as zero."""

    __slots__ = ("_behind", "_durable_size", "_pages", "_sync_failed", "modified_ms", "size")

    def __init__(self, now_ms: int) -> None:
        self.size = 0
        self.modified_ms = now_ms
        self._durable_size = 0
        self._pages: dict[int, bytearray] = {}
        self._behind: dict[int, _Behind] = {}
        self._sync_failed = False

    @property
    def page_count(self) -> int:
        return len(self._pages)

    def read(self, size: int, offset: int) -> bytes:
        end = min(offset + size, self.size)
        out = bytearray(max(0, end - offset))
        for page in self._pages_within(offset, end):
            first, last = max(offset, page * PAGE_BYTES), min(end, (page + 1) * PAGE_BYTES)
            inside = first - page * PAGE_BYTES
            out[first - offset : last - offset] = self._pages[page][inside : inside + last - first]
        return bytes(out)

    def write(self, data: memoryview, offset: int, room_pages: int | None) -> int:
        """Writes as much of `data` as `room_pages` new pages allow (None: no bound) and returns how much that was."""
        written = 0
        while written < len(data):
            page, inside = divmod(offset + written, PAGE_BYTES)
            if page not in self._pages and room_pages is not None:
                if room_pages <= 0:
                    break
                room_pages -= 1
            size = min(PAGE_BYTES - inside, len(data) - written)
            self._touch(page, inside, inside + size)
            content = self._pages.setdefault(page, bytearray(PAGE_BYTES))
            content[inside : inside + size] = data[written : written + size]
            written += size
        if written:
            self.size = max(self.size, offset + written)
        return written

    def truncate(self, size: int) -> None:
        last, inside = divmod(size, PAGE_BYTES)
        for page in [page for page in self._pages if page > last or (page == last and not inside)]:
            self._touch(page, 0, PAGE_BYTES)
            del self._pages[page]
        if inside and last in self._pages:
            self._touch(last, inside, PAGE_BYTES)
            self._pages[last][inside:] = bytes(PAGE_BYTES - inside)
        self.size = size

    def sync(self) -> None:
        """All that is dirty becomes durable; what a failed sync has passed over does not: it is no longer dirty."""
        if self._sync_failed:
            for page, behind in list(self._behind.items()):
                behind.durable = bytes(self._merged(page, behind, behind.dirty_sectors))
                behind.dirty_sectors = 0
                if behind.durable == self._seen(page):
                    del self._behind[page]
        else:
            self._behind.clear()
        self._durable_size = self.size

    def fail_sync(self) -> None:
        """The kernel's answer to a failed write-back: the pages count as clean, and are on no disk."""
        self._sync_failed = True
        for behind in self._behind.values():
            behind.dirty_sectors = 0

    def crash(self, entropy: Entropy | None) -> None:
        """Power loss: what is durable, and of the rest what `entropy` picks (None: nothing)."""
        size = _surviving_size(self._durable_size, self.size, entropy)
        survivors = _surviving_sectors(len(self._behind), entropy)
        for (page, behind), picked in zip(sorted(self._behind.items()), survivors, strict=True):
            content = self._merged(page, behind, behind.dirty_sectors & picked)
            if any(content):
                self._pages[page] = content
            else:
                self._pages.pop(page, None)
        self._behind.clear()
        self._sync_failed = False
        self.truncate(size)
        self._behind.clear()
        self._durable_size = size

    def next_data(self, offset: int) -> int:
        """The first byte from `offset` on that is on a page ever written; the size if there is none."""
        pages = [page for page in self._pages if page >= offset // PAGE_BYTES]
        return min(self.size, max(offset, min(pages) * PAGE_BYTES)) if pages else self.size

    def _pages_within(self, offset: int, end: int) -> Iterator[int]:
        first, last = offset // PAGE_BYTES, (end - 1) // PAGE_BYTES
        if last - first > len(self._pages):
            return (page for page in self._pages if first <= page <= last)
        return (page for page in range(first, last + 1) if page in self._pages)

    def _touch(self, page: int, start: int, stop: int) -> None:
        behind = self._behind.get(page)
        if behind is None:
            content = self._pages.get(page)
            behind = self._behind[page] = _Behind(None if content is None else bytes(content))
        for sector in range(start // SECTOR_BYTES, -(-stop // SECTOR_BYTES)):
            behind.dirty_sectors |= 1 << sector

    def _seen(self, page: int) -> bytes | bytearray:
        return self._pages.get(page) or bytes(PAGE_BYTES)

    def _merged(self, page: int, behind: _Behind, sectors: int) -> bytearray:
        """The durable page with these sectors of the one that the process sees."""
        content = bytearray(behind.durable or PAGE_BYTES)
        seen = self._seen(page)
        for sector in range(PAGE_BYTES // SECTOR_BYTES):
            if sectors >> sector & 1:
                place = slice(sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES)
                content[place] = seen[place]
        return content


@dataclass(slots=True, eq=False)
class Directory:
    """Names, as the process sees them and as the disk has them."""

    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


Node: TypeAlias = Inode | Directory


@dataclass(frozen=True, slots=True)
class _NameChange:
    removed: tuple[Directory, str] | None
    added: tuple[Directory, str, Node] | None

    def concerns(self, directory: Directory) -> bool:
        return any(end is not None and end[0] is directory for end in (self.removed, self.added))

    def make_durable(self) -> None:
        if self.removed is not None:
            self.removed[0].durable.pop(self.removed[1], None)
        if self.added is not None:
            self.added[0].durable[self.added[1]] = self.added[2]


class NameTree:
    """The directories of a disk and the changes of names that are not durable yet, in the order they were made."""

    def __init__(self) -> None:
        self.root = Directory()
        self._unsynced: list[_NameChange] = []

    def link(self, directory: Directory, name: str, node: Node) -> None:
        directory.entries[name] = node
        self._unsynced.append(_NameChange(None, (directory, name, node)))

    def unlink(self, directory: Directory, name: str) -> None:
        del directory.entries[name]
        self._unsynced.append(_NameChange((directory, name), None))

    def move(self, source: Directory, name: str, target: Directory, target_name: str) -> None:
        node = source.entries.pop(name)
        target.entries[target_name] = node
        self._unsynced.append(_NameChange((source, name), (target, target_name, node)))

    def sync(self, directory: Directory) -> None:
        for change in self._unsynced:
            if change.concerns(directory):
                change.make_durable()
        self._unsynced = [change for change in self._unsynced if not change.concerns(directory)]

    def crash(self, entropy: Entropy | None) -> None:
        """Power loss, for names and for the content of every file that still has one."""
        for change, survives in zip(self._unsynced, _survivors(len(self._unsynced), entropy), strict=True):
            if survives:
                change.make_durable()
        self._unsynced.clear()
        for directory in self.directories():
            directory.entries = dict(directory.durable)
        for inode in self.inodes():
            inode.crash(entropy)

    def directories(self) -> Iterator[Directory]:
        pending = [self.root]
        while pending:
            directory = pending.pop()
            yield directory
            pending.extend(node for node in directory.entries.values() if isinstance(node, Directory))

    def inodes(self) -> Iterator[Inode]:
        for directory in self.directories():
            yield from (node for node in directory.entries.values() if isinstance(node, Inode))


def _survivors(count: int, entropy: Entropy | None) -> list[bool]:
    """Which of `count` unsynced changes survive. An even subset is only one of the ways it goes: nothing, everything,
    and all up to a point happen as often."""
    if entropy is None:
        return [False] * count
    kind = entropy.below(4)
    if kind == 0:
        return [bool(entropy.below(2)) for _ in range(count)]
    cut = (0, count, entropy.below(count + 1))[kind - 1]
    return [index < cut for index in range(count)]


def _surviving_sectors(pages: int, entropy: Entropy | None) -> list[int]:
    """For each unsynced page, which of its sectors survive: whole pages as above, or each sector on its own."""
    if entropy is not None and entropy.below(2):
        return list(entropy.token(pages))
    return [_ALL_SECTORS if survives else 0 for survives in _survivors(pages, entropy)]


def _surviving_size(durable: int, seen: int, entropy: Entropy | None) -> int:
    """The old length, the new one, or one between at the end of a sector: lengths follow what was written back."""
    if entropy is None:
        return durable
    low, high = sorted((durable, seen))
    sectors = (high - low) // SECTOR_BYTES
    between = min(high, -(-low // SECTOR_BYTES) * SECTOR_BYTES + entropy.below(sectors + 1) * SECTOR_BYTES)
    return (durable, seen, between)[entropy.below(3)]
