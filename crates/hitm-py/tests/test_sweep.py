"""Sweeps from Python, and the engine Ray: the same bytes as the local pool's."""

from pathlib import Path

import pytest

import hitm

RUNS = 40


def started(folder: Path) -> int:
    return len((folder / "runs" / "started").read_text().splitlines())


def test_a_sweep_is_a_table(plan: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    output = tmp_path / "out"
    table = hitm.sweep(plan, output, progress=lambda *now: seen.append(now))
    assert seen[-1] == (RUNS, RUNS, 0)
    rows = table.to_dict()
    assert set(rows["kernel.tick"]) == {100, 400, 700, 1000} and set(rows["seed"]) == set(range(1, 11))
    assert table.units["kernel.tick"] == "1/s"
    assert len(set(rows["run"])) == RUNS == started(output)
    # What is there is not run again.
    hitm.sweep(plan, output, progress=False)
    assert started(output) == RUNS


def test_a_plan_may_be_a_mapping(scenario: Path, tmp_path: Path) -> None:
    plan = {
        "schema": 1,
        "name": "p",
        "scenarios": [str(scenario)],
        "vary": [{"key": "kernel.tick", "values": ["100/s", "250/s"]}],
        "metrics": ["time.idle"],
    }
    table = hitm.sweep(plan, tmp_path / "out", progress=False)
    assert table.to_dict()["metric"] == ["time.idle"] * 2
    with pytest.raises(hitm.HitmError) as raised:
        hitm.sweep({**plan, "metrics": ["time.idel"]}, tmp_path / "out")
    assert raised.value.key == "metrics"


def test_ray_gives_the_same_bytes(plan: Path, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    hitm.sweep(plan, tmp_path / "local", progress=False)
    try:
        hitm.sweep(plan, tmp_path / "ray", engine="ray", jobs=2)
    finally:
        ray.shutdown()
    local, remote = tmp_path / "local", tmp_path / "ray"
    assert started(remote) == RUNS
    assert (remote / "results.parquet").read_bytes() == (local / "results.parquet").read_bytes()


def test_unknown_engines_are_refused(plan: Path, tmp_path: Path) -> None:
    with pytest.raises(hitm.HitmError, match="engine: found 'slrum'"):
        hitm.sweep(plan, tmp_path / "out", engine="slrum")
