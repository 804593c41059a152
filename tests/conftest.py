"""What all tests share: hypothesis profiles, how long the long tests are, what they tell, and a Ctrl-C that works."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import time
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .certificates import Authority

SOAK_SHARE = float(os.environ.get("RMQ_SOAK_SHARE", "1"))
"""How much of the long forms a run with the profile "soak" does, from 0 to 1; soak.py gives rounds their share."""

SOAK_ENDS = float(os.environ.get("RMQ_SOAK_ENDS", "inf"))
"""When no test of a soak begins any more, in seconds since 1970."""


def amount_of(short: int, long: int, share: float, by: float = 1) -> int:
    """So much of the way from the short form of a test to its long one; all of it from the share `by` on."""
    return round(short + (long - short) * min(1, share / by))


# deadline=None: these machines are noisy, and time is never what a property test is about.
# Without Phase.explain, which traces every line: the models, which it slows a hundredfold, were cut off by pytest's
# time limit before they had told what they found.
_COMMON = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
    "phases": [phase for phase in Phase if phase is not Phase.explain],
}
settings.register_profile("default", max_examples=60, **_COMMON)
settings.register_profile("ci", max_examples=60, print_blob=True, **_COMMON)
settings.register_profile("soak", max_examples=amount_of(60, 1000, SOAK_SHARE), print_blob=True, **_COMMON)
settings.load_profile("ci" if os.environ.get("CI") else "default")

# For Spark's JVMs, those of processes that tests start too. No test measures, and none of these JVMs lives for long: to
# compile with their second compiler and to collect garbage in parallel cost half of their processor time.
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
_CLASSES = Path(os.environ.get("SPARK_HOME", ""), "classes.jsa")  # of a home that compiled_spark.py has made
if _CLASSES.is_file():
    _SHORT_LIVED += f" -XX:SharedArchiveFile={_CLASSES}"
_SPARK = {
    # A Python worker of Spark that dies of native code tells where it was, in the error that Spark raises.
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.driver.defaultJavaOptions": _SHORT_LIVED,
    "spark.executor.defaultJavaOptions": _SHORT_LIVED,
}
_WORDS = [word for name, value in _SPARK.items() for word in ("--conf", f"{name}={value}")]
os.environ.setdefault("PYSPARK_SUBMIT_ARGS", shlex.join([*_WORDS, "pyspark-shell"]))

# Tests run in a shell's background have Ctrl-C switched off, under nohup hanging up, and so has all they start: those
# that press it, or hang up, would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is found stays to the end, half a million objects: nobody looks for garbage among them again and again,
    neither while they are made nor in each test."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)  # when they are shuffled
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that take long first: one that begins last leaves the other core idle."""
    items.sort(key=lambda item: item.get_closest_marker("slow_first") is None)


def pytest_runtest_setup() -> None:
    """In a soak whose time is over the rest is left out."""
    if time.time() > SOAK_ENDS:
        pytest.skip("the soak's time is over")


@pytest.fixture(scope="session")
def soaking(pytestconfig: pytest.Config) -> bool:
    """Whether this run is part of `make soak`, where tests tell more."""
    return pytestconfig.getoption("--hypothesis-profile") == "soak"


@pytest.fixture(scope="session")
def amount(soaking: bool) -> Callable[..., int]:
    """How much of a test to do: `amount(30, 300)` is 30 everywhere but in a soak, where it is a share of what lies
    between, and 300 in a whole one. With `by=0.01` it is 300 in every soak of half an hour (`LEAST_SHARE` in soak.py),
    with `by=0.2` in one of some hours."""
    return lambda short, long, by=1: amount_of(short, long, SOAK_SHARE if soaking else 0, by)


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """What a test puts where nobody looks for garbage is all there is of that kind."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.fixture
def seed(pytestconfig: pytest.Config) -> int:
    """What the random choices of a test follow from; --randomly-seed=N repeats them."""
    return pytestconfig.getoption("randomly_seed", SystemRandom().getrandbits(32))


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Says something in the summary of the run, as the figures of a long test: `tell("30 kills, seed 7")`."""
    return lambda text: record_property("told", text)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom servers and clients of a test may trust."""
    from .certificates import Authority  # a soak's own tests have this file alone

    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom they do not know."""
    from .certificates import Authority

    return Authority(tmp_path_factory.mktemp("stranger"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what tests `tell`, whichever process they ran in."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    told = [
        f"{report.nodeid}: {text}"
        for report in reports
        if report.when == "call"
        for name, text in report.user_properties
        if name == "told"
    ]
    if told:
        terminalreporter.section("told by tests")
        terminalreporter.write_line("\n".join(told))
