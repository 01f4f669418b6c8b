"""Simulations, machines, layouts and errors, as a user of the package meets them."""

import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import HITM, wait_for

import hitm

ROOT = Path(__file__).resolve().parents[3]


def test_a_simulation_is_data_and_a_table(scenario: Path) -> None:
    result = hitm.simulate(scenario, seeds=2, kernel__tick="1000/s")
    assert result.data["machine"] == "broadwell-4s"
    rows = result.metrics.to_dict()
    assert len(result.metrics) == len(rows["id"]) > 12
    at = rows["id"].index("timers.wakeups")
    assert rows["mean"][at] > 0 and rows["unit"][at] == "count" and rows["run_count"][at] == 2
    assert hitm.simulate(scenario, seeds=2, kernel__tick="1000/s").data == result.data
    assert hitm.simulate(scenario, seeds=2).data != result.data


def test_tables_are_arrow(scenario: Path) -> None:
    metrics = hitm.simulate(scenario).metrics
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(metrics)
    assert frame.columns == metrics.column_names
    assert frame["mean"].to_list() == metrics.to_dict()["mean"]
    # A table may be read any number of times.
    assert polars.DataFrame(metrics).equals(frame)


def test_errors_have_a_place(scenario: Path) -> None:
    with pytest.raises(hitm.HitmError) as raised:
        hitm.simulate(scenario, kernel__tock=1)
    assert raised.value.key == "kernel.tock" and raised.value.line is None
    scenario.write_text(scenario.read_text().replace("cpus = 4", "cpus = 5000"))
    with pytest.raises(hitm.HitmError) as raised:
        hitm.simulate(scenario)
    assert raised.value.file == str(scenario)
    assert (raised.value.line, raised.value.key) == (7, "machine.cpus")
    with pytest.raises(ValueError, match="no machine model named"):
        hitm.machine("none")
    with pytest.raises(hitm.HitmError, match="cannot open none.hitm"):
        hitm.report("none.hitm")


def test_machines_and_layouts() -> None:
    names = hitm.machines()
    assert "xeon-480" in names
    assert hitm.machine("xeon-480")["name"] == "xeon-480"
    with pytest.raises(hitm.HitmError):
        hitm.layout("rq", file=__file__)


SOURCE = """
struct inner { int depth; long total; };
struct outer { char kind; struct inner first; int flags : 3; struct { int x; }; } outer;
"""


def test_a_layout_is_data_and_a_table(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    (tmp_path / "outer.c").write_text(SOURCE)
    subprocess.run(["cc", "-g", "-shared", "-fPIC", "-o", "outer.so", "outer.c"], cwd=tmp_path, check=True)
    file = tmp_path / "outer.so"
    shown = hitm.layout("outer", file=file, expand=True)
    assert shown.data["size_bytes"] == 32
    rows = shown.members.to_dict()
    assert rows["path"] == ["kind", "first", "first.depth", "first.total", "flags", None, "x"]
    assert rows["depth"] == [0, 0, 1, 1, 0, 0, 1]
    assert rows["offset_bytes"] == [0, 8, 8, 16, 24, 28, 28]
    assert rows["hole_after_bytes"][0] == 7 and rows["bit_size"][4] == 3
    assert shown.members.units["hole_after_bytes"] == "bytes"
    # Without `expand`, members of a structure without a name only.
    assert hitm.layout("outer", file=file).members.to_dict()["path"] == ["kind", "first", "flags", None, "x"]


def test_a_replay_is_data_and_tables(tmp_path: Path) -> None:
    if any(shutil.which(tool) is None for tool in ("cc", "qemu-x86_64")):
        pytest.skip("no C compiler or no qemu-x86_64")
    source = ROOT / "examples" / "false_sharing.c"
    subprocess.run(["cc", "-O2", "-g", "-pthread", "-o", "run", source], cwd=tmp_path, check=True)
    recorded = [HITM, "record", "-o", "run.hitm", "./run", "20000"]
    subprocess.run(recorded, cwd=tmp_path, check=True, capture_output=True)
    replay = hitm.whatif(tmp_path / "run.hitm", machine="milan-2s")
    runs = replay.runs.to_dict()
    assert runs["run"] == ["before", "after"] and runs["machine"][1] == "milan-2s"
    assert runs["lost_cycles"][1] == replay.data["run"]["after"]["lost_cycles"] > 0
    assert replay.runs.units["lost_cycles"] == "cycles"
    for table, name in [(replay.lines, "lines"), (replay.threads, "threads")]:
        rows = table.to_dict()
        listed = replay.data[name]
        assert len(table) == len(listed) > 0
        assert rows["lost_cycles_after"] == [one["lost_cycles_after"] for one in listed]
    # No layout was put in: tables without rows have their columns and types.
    assert len(replay.members) == len(replay.objects) == 0
    assert "offset_after_bytes" in replay.members.column_names
    assert len(hitm.whatif(tmp_path / "run.hitm", machine="milan-2s", top=0).lines) == 0


LONG = """
import hitm, sys
try:
    hitm.simulate(sys.argv[1], **{"run.duration": "3000s"})
except KeyboardInterrupt:
    sys.exit(7)
"""


def test_ctrl_c_ends_a_simulation(scenario: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", LONG, str(scenario)]) as child:
        # A simulation has a thread of its own.
        wait_for("simulation", lambda: len(list(Path(f"/proc/{child.pid}/task").iterdir())) > 1)
        child.send_signal(signal.SIGINT)
        # The run of 3,000 seconds reports its progress 200 times.
        assert child.wait() == 7


def test_other_threads_run_meanwhile(scenario: Path) -> None:
    number = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal number
        while not stop.is_set():
            number += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    counts = []
    # With the lock held, the thread would count to one or two. The host may give it no time during one run.
    while len(counts) < 50 and max(counts, default=0) <= 10:
        before = number
        hitm.simulate(scenario, **{"run.duration": "500ms"})
        counts.append(number - before)
    stop.set()
    thread.join()
    assert max(counts) > 10, counts
