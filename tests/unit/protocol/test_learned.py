"""Types that several threads decode for the first time, at the same time."""

from __future__ import annotations

import subprocess
import sys

_THREADS_AT_ONCE = """
import sys, threading
import msgspec
from rmqspark.protocol.learned import learned

sys.setswitchinterval(1e-6)


def decode(of_all, data, kind):
    of_all.wait()
    msgspec.json.decode(data, type=learned(kind))


for _ in range(200):
    part = msgspec.defstruct("Part", [(f"p{number}", int | None, None) for number in range(20)])
    whole = msgspec.defstruct("Whole", [(f"w{number}", list[part] | None, None) for number in range(10)])
    data = msgspec.json.encode({f"w{number}": [{"p19": 3}] for number in range(10)})
    of_all = threading.Barrier(4)
    threads = [threading.Thread(target=decode, args=(of_all, data, whole)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_types_are_learned_before_any_thread_decodes_them() -> None:
    """In a process of its own: with `type=kind` it ends with SIGSEGV within a second."""
    done = subprocess.run([sys.executable, "-c", _THREADS_AT_ONCE], check=False, timeout=60, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
