"""How patient the sink is with brokers that do not answer."""

from __future__ import annotations

from typing import Final

from rmqspark.client.cluster.patience import STREAM_PATIENCE_MS, Patience

_PAUSES_MS: Final = (100, 200, 400, 800, 1_600, 3_200)

BEGINNING: Final = Patience(_PAUSES_MS)
"""Of a job that has written nothing, whose address may be wrong: long enough for a broker that is started anew."""
UNDER_WAY: Final = Patience(_PAUSES_MS, STREAM_PATIENCE_MS)
"""Of one that runs: what it has done would be done again. Also with a broker that hangs, where a try takes long."""
LAST: Final = Patience(_PAUSES_MS, sum(_PAUSES_MS))
"""When that was in vain, and something is to be said yet."""
