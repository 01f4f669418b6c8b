"""The program of the package, a small scenario and a plan of it."""

import faulthandler
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

HITM = Path(sys.prefix) / "bin" / "hitm"

pytest_plugins = ["pages"]

TEST_SECONDS_MAX = 1200
"""Ten times what the slowest test takes on a busy host. A test that hangs fails then, and what it started ends."""
WAIT_SECONDS_MAX = 240
"""For one condition. Ray starts a dozen processes for a node, on a host that may be busy."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A deadline for each test, with what it starts and the fixtures that it is the first to need."""

    def fail(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"{item.nodeid} has not ended after {TEST_SECONDS_MAX} s")

    signal.signal(signal.SIGALRM, fail)
    signal.alarm(TEST_SECONDS_MAX)
    # For native code that does not come back to the interpreter.
    faulthandler.dump_traceback_later(TEST_SECONDS_MAX + 60, exit=True)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()


def wait_for(what: str, is_there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_there():
        assert time.monotonic() < deadline, f"no {what} in {WAIT_SECONDS_MAX} s"
        time.sleep(0.1)

SCENARIO = """schema = 1
name = "small"
description = "d"
source = "made"
[machine]
preset = "broadwell-4s"
cpus = 4
[[workload]]
kind = "cyclic"
name = "timers"
[run]
duration = "5ms"
"""

PLAN = """schema = 1
name = "p"
scenarios = "small.toml"
seeds = 10
[[vary]]
key = "kernel.tick"
from = "100/s"
to = "1000/s"
steps = 4
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def plan(scenario: Path) -> Path:
    path = scenario.with_name("plan.toml")
    path.write_text(PLAN)
    return path
