"""A disk that can lose its power: ext4 in an image, whose copy is what a machine would find that starts again.

The image has what the kernel has written back, and of what it has not, nothing. It is mounted in a mount namespace of
its own and gone with the process that holds it, its loop device too.
"""

from __future__ import annotations

import errno
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOUNT = 'mount -o loop "$1" "$0" && echo mounted && exec cat'
_WRITES = 4  # field of /sys/block/*/stat: requests written so far
_TRIES = 100


class Ext4Disk:
    """Its files are at `path` while it is mounted."""

    def __init__(self, path: Path, image: Path, device: str) -> None:
        self.path = path
        self._image = image
        self._counts = Path("/sys/block") / device / "stat"

    def copy(self, image: Path) -> None:
        """What would be on it if the power failed now. Nobody may be writing to its files; the kernel may write back.

        Raises OSError where it never stops: a copy taken meanwhile may have a later write without an earlier one.
        """
        for _ in range(_TRIES):
            before = self._written()
            _call("cp", str(self._image), str(image))  # which leaves holes where there are some
            if self._written() == before:
                return
        raise OSError(errno.EBUSY, "the kernel writes on and on")

    def _written(self) -> int:
        return int(self._counts.read_text().split()[_WRITES])


def make_image(image: Path, size: int) -> None:
    """An empty ext4."""
    with image.open("xb") as file:
        file.truncate(size)
    _call("mkfs.ext4", "-q", "-F", str(image))


@contextmanager
def mounted(image: Path, directory: Path) -> Iterator[Ext4Disk]:
    """The disk of an image, its journal recovered, at `directory` in a namespace of its own."""
    directory.mkdir()
    command = ["unshare", "--mount", "sh", "-c", _MOUNT, str(directory), str(image)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        if holder.stdout.readline() != b"mounted\n":
            raise OSError(errno.EPERM, "this user may not mount an image")
        path = Path(f"/proc/{holder.pid}/root") / directory.relative_to("/")
        yield Ext4Disk(path, image, _device(holder.pid, directory))
    finally:
        holder.stdin.close()  # with its input it ends, and with it the mount
        holder.wait()
        holder.stdout.close()


def _device(pid: int, directory: Path) -> str:
    mounts = [line.split() for line in Path(f"/proc/{pid}/mounts").read_text().splitlines()]
    return next(Path(source).name for source, target, *_ in mounts if target == str(directory))


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise OSError(errno.EPERM, f"{command[0]} failed: {done.stderr.decode(errors='replace')}")


def why_not(directory: Path) -> str | None:
    """Why there can be no such disk here; None where there can."""
    try:
        make_image(directory / "image", 16 << 20)
        with mounted(directory / "image", directory / "disk") as disk:
            disk.copy(directory / "copy")
    except OSError as error:  # no mkfs.ext4, no loop device, or no right to use it
        return f"no ext4 can be mounted from an image: {error}"
    return None
