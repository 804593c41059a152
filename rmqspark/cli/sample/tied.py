"""`rmq` that ends with who started it: `python -m rmqspark.cli.sample.tied up --store DIR`.

The end of standard input is SIGTERM to it. So nothing is left of a demo or a measurement that was killed.
"""

from __future__ import annotations

import os
import signal
import threading

from rmqspark.cli.main import main
from rmqspark.cli.sample.ending import end_of_input


def tie() -> None:
    """From here on SIGTERM comes when standard input has ended."""
    ended = end_of_input()

    def wait() -> None:
        ended.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="rmqspark tied", daemon=True).start()


if __name__ == "__main__":
    tie()
    main()
