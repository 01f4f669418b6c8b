"""Simulations, machines, layouts and errors, as a user of the package meets them."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import hitm


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


LONG = """
import hitm, sys
print("begins", flush=True)
try:
    hitm.simulate(sys.argv[1], **{"run.duration": "3000s"})
except KeyboardInterrupt:
    sys.exit(7)
"""


def test_ctrl_c_ends_a_simulation(scenario: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", LONG, str(scenario)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    # The run of 3,000 seconds reports its progress 200 times.
    assert child.wait(timeout=300) == 7


def test_other_threads_run_meanwhile(scenario: Path) -> None:
    counts = []
    stop = threading.Event()

    def count() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            time.sleep(0.001)
        counts.append(number)

    thread = threading.Thread(target=count)
    thread.start()
    began = time.monotonic()
    hitm.simulate(scenario, **{"run.duration": "500ms"})
    elapsed = time.monotonic() - began
    stop.set()
    thread.join()
    # With the lock held, the thread would count to one or two.
    assert elapsed > 0.05 and counts[0] > 10
