"""Bad bytes for servers in a process of their own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqspark.testing.fuzz.golden import golden_frames
from rmqspark.testing.fuzz.servers import run_servers

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

GOLDEN = golden_frames(Path(__file__).parents[2] / "golden")
FRAMES = 2_500
FRAMES_OF_A_SOAK = 400_000


@pytest.mark.timeout(3_600)
def test_bad_frames_hurt_nobody(
    tmp_path: Path, amount: Callable[[int, int], int], seed: int, tell: Callable[[str], None]
) -> None:
    """Nothing that comes over a socket kills a server, fills its memory, gets into its log as an error, or touches
    what others have stored; nor does a kill behind it leave a store that is not sound."""
    verdict = run_servers(tmp_path, amount(FRAMES, FRAMES_OF_A_SOAK), GOLDEN, seed=seed)
    tell(
        f"{verdict.frames:,} frames, seed {seed}: {verdict.answers['succeeded']:,} carried out, "
        f"{verdict.answers['answered']:,} refused; {verdict.notes} messages of a canary unharmed; "
        f"{verdict.growth_bytes >> 20} MiB gained at most"
    )
