"""The search: its ranges, and that a second search makes no run again."""

from pathlib import Path

import pytest

import hitm
from hitm.optimise import Within, search


def test_ranges_and_choices_are_read() -> None:
    tick = Within.parse("kernel.tick=100/s..1000/s")
    assert (tick.low, tick.high, tick.unit) == (100, 1000, "/s")
    idle = Within.parse("kernel.idle_exit=1us..0.5ms")
    assert (idle.low, idle.high, idle.unit) == (1_000, 500_000, "ns")
    assert Within.parse("layout=a,b").choices == ("a", "b")
    for wrong in ["kernel.tick", "kernel.tick=9..1", "kernel.tick=1us..2/s", "a=x..y"]:
        with pytest.raises(hitm.HitmError):
            Within.parse(wrong)


def test_a_search_finds_the_least_and_repeats_nothing(scenario: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    plan = tmp_path / "plan.toml"
    plan.write_text('schema = 1\nname = "p"\nscenarios = "small.toml"\n')
    within = [Within.parse("workload.sleep=50us,100us,500us,1ms")]
    output = tmp_path / "out"
    best, value = search(plan, output, "timers.wakeups", within, trials=20)
    # The longest sleep has the fewest wake-ups.
    assert best == {"workload.sleep": "1ms"} and value > 0
    started = (output / "runs" / "started").read_text()
    assert len(started.splitlines()) <= 4
    assert search(plan, output, "timers.wakeups", within, trials=20) == (best, value)
    assert (output / "runs" / "started").read_text() == started
