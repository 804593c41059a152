"""The benchmarks are programs, not a package: their directory is where they find each other."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
