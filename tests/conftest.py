"""What all tests share: hypothesis profiles, and a Ctrl-C that works."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

# deadline=None: these machines are noisy, and time is never what a property test is about.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("default", max_examples=60, **_COMMON)
settings.register_profile("ci", max_examples=120, print_blob=True, **_COMMON)
settings.register_profile("soak", max_examples=5000, print_blob=True, **_COMMON)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# Tests run in a shell's background have Ctrl-C switched off, and so has all they start: those that press it would wait
# for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
