"""A disk that a test can fill: a small tmpfs in a mount namespace of its own, gone with the process that holds it."""

from __future__ import annotations

import errno
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# In a user namespace everybody may mount, where the system allows one; root may anywhere.
_NAMESPACES = (("unshare", "--map-root-user", "--mount"), ("unshare", "--mount"))
_MOUNT = 'mount -t tmpfs -o "size=$1" rmqspark-test "$0" && echo mounted && exec cat'


class SmallDisk:
    """Its files are at `path`, for this process and all others of this user, while the namespace lives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fillers = 0

    def take(self, size: int) -> None:
        """Takes so many bytes of it."""
        with self._filler().open("xb") as file:
            file.write(b"\1" * size)

    def fill(self) -> None:
        """Takes all that is left."""
        try:
            with self._filler().open("xb", buffering=0) as file:
                while True:
                    file.write(b"\1" * 4096)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

    def free(self) -> None:
        """Gives back what was taken."""
        for number in range(self._fillers):
            (self.path / f"filler-{number}").unlink()
        self._fillers = 0

    def _filler(self) -> Path:
        self._fillers += 1
        return self.path / f"filler-{self._fillers - 1}"


@contextmanager
def small_disk(directory: Path, size: int) -> Iterator[SmallDisk]:
    """A disk of `size` bytes, mounted at `directory` in a namespace of its own."""
    for namespace in _NAMESPACES:
        holder = _hold(namespace, directory, size)
        assert holder.stdin is not None
        assert holder.stdout is not None
        try:
            if holder.stdout.readline() == b"mounted\n":
                yield SmallDisk(Path(f"/proc/{holder.pid}/root") / directory.relative_to("/"))
                return
        finally:
            holder.stdin.close()  # with its input it ends, and with it the disk
            holder.wait()
            holder.stdout.close()
    raise OSError(errno.EPERM, "this user may not mount a tmpfs, in a namespace or outside")


def _hold(namespace: tuple[str, ...], directory: Path, size: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*namespace, "sh", "-c", _MOUNT, str(directory), str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def why_not(directory: Path) -> str | None:
    """Why there can be no small disk here; None where there can."""
    try:
        with small_disk(directory, 1 << 20) as disk:
            disk.take(1000)
    except OSError as error:
        return f"no tmpfs can be mounted and reached: {error}"
    return None
