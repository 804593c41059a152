"""`rmq` that ends with who started it: `python -m rmqspark.cli.tied up --store DIR`.

The end of standard input is SIGTERM to it. So nothing is left of a demo or a measurement that was killed.
"""

from __future__ import annotations

from rmqspark.cli.main import main
from rmqspark.cli.processes.ending import tie

if __name__ == "__main__":
    tie()
    main()
