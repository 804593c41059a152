"""Peak memory of processes below this one, as Linux counts it (VmHWM: resident, mapped files included)."""

from __future__ import annotations

from pathlib import Path


def below(pid: int) -> list[int]:
    """All processes that this one started, and those that they did."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                found += [int(child), *below(int(child))]
        except OSError:  # it has ended
            continue
    return found


def running(pids: list[int], *words: str) -> list[int]:
    """Those whose command line has these words, one after the other."""
    words_of_it = "\0".join(("", *words, "")).encode()
    return [pid for pid in pids if words_of_it in _read(pid, "cmdline")]


def reset_peak(pid: int) -> None:
    """Lets the peak begin again at what is resident now."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except ProcessLookupError:
        return


def peak_bytes(pid: int) -> int:
    """0 if the process has ended."""
    _, _, rest = _read(pid, "status").partition(b"VmHWM:")
    return int(rest.split()[0]) << 10 if rest else 0


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
