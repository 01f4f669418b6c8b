"""The program of the package, a small scenario and a plan of it."""

import sys
from pathlib import Path

import pytest

HITM = Path(sys.prefix) / "bin" / "hitm"

pytest_plugins = ["pages"]

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
