"""`hitm sweep` with the engine ray and with a search, through the command line."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import HITM, PLAN, SCENARIO

SECONDS_MAX = 240
"""Ray starts a dozen processes for a node, on a host that may be busy."""


def environment() -> dict[str, str]:
    """The Python of these tests is the one that hitm finds."""
    folder = str(Path(sys.executable).parent)
    # The nodes of a test listen on this host only, and have no token to share.
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "RAY_AUTH_MODE": "disabled"}


def sweep(*args: object) -> "subprocess.CompletedProcess[str]":
    command = [str(HITM), "sweep", *map(str, args)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


def local(plan: Path, output: Path) -> bytes:
    done = sweep(plan, "-o", output)
    assert done.returncode == 0, done.stderr
    return (output / "results.parquet").read_bytes()


def started(folder: Path) -> list[str]:
    path = folder / "runs" / "started"
    return path.read_text().splitlines() if path.exists() else []


def test_the_engine_ray(plan: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    expected = local(plan, tmp_path / "local")
    output = tmp_path / "ray"
    done = sweep(plan, "-o", output, "--engine", "ray", "--jobs", 2)
    # Ray itself writes lines before.
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == f"hitm: wrote {output}/results.parquet"
    assert (output / "results.parquet").read_bytes() == expected
    # The other engine finds all runs.
    assert sweep(plan, "-o", output).stderr.startswith("hitm: 0 runs made, 40 found\n")


def test_a_cluster_that_is_not_there_is_an_error(plan: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    done = sweep(plan, "-o", tmp_path / "out", "--engine", "ray://127.0.0.1:1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("hitm: error: cannot reach Ray at ray://127.0.0.1:1: ")


def test_a_search(scenario: Path, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    plan = tmp_path / "plan.toml"
    plan.write_text('schema = 1\nname = "p"\nscenarios = "small.toml"\n')
    output = tmp_path / "out"
    search = [plan, "-o", output, "--optimise", "timers.wakeups", "--within", "workload.sleep=50us,100us,500us,1ms"]
    least = sweep(*search, "--trials", 12)
    assert (least.returncode, least.stderr) == (0, "")
    assert least.stdout.splitlines()[0] == "workload.sleep = 1ms"
    begun = started(output)
    assert 0 < len(begun) <= 4
    # A second search makes no run again; the other end is the other answer.
    assert sweep(*search, "--trials", 12).stdout == least.stdout
    assert started(output) == begun
    assert sweep(*search, "--trials", 12, "--largest").stdout.splitlines()[0] == "workload.sleep = 50us"
    wrong = sweep(plan, "-o", output, "--optimise", "timers.wakeups", "--within", "workload.sleep=9us..1us")
    assert wrong.returncode == 2
    assert wrong.stderr == (
        "hitm: error: --within workload.sleep=9us..1us: expected two ends of one unit, the least first\n"
    )
    unknown = sweep(plan, "-o", output, "--optimise", "timers.wakeup", "--within", "workload.sleep=1us..9us")
    assert unknown.returncode == 2
    # Optuna writes of the trial before.
    assert unknown.stderr.splitlines()[-1].startswith("hitm: error: --optimise timers.wakeup: no run has this metric")


def below(process: int) -> dict[int, str]:
    """Processes below one, with their command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    found: dict[int, str] = {}
    for one in parents:
        above = one
        while above in parents and above != process:
            above = parents[above]
        if above == process and one != process:
            try:
                command = Path(f"/proc/{one}/cmdline").read_bytes()
            except OSError:
                continue
            found[one] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def kill(node: "subprocess.Popen[bytes]") -> None:
    """Kills a node and all that it started, at once."""
    for process in [node.pid, *below(node.pid)]:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    node.wait()


def wait_for(what: str, is_there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_there():
        assert time.monotonic() < deadline, f"no {what} in {SECONDS_MAX} s"
        time.sleep(0.1)


def ports(count: int) -> list[int]:
    """Ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    numbers = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return numbers


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def nodes() -> "Iterator[tuple[int, subprocess.Popen[bytes]]]":
    """Two Ray nodes of one CPU on this host: the port for clients, and the second node."""
    pytest.importorskip("ray")
    port, clients = ports(2)
    # Sockets of Ray have long names below its folder, and a name of a socket is short.
    with tempfile.TemporaryDirectory(prefix="hitm-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        common = ["--block", "--num-cpus=1", "--object-store-memory=90000000", "--disable-usage-stats"]
        head = ["--head", "--node-ip-address=127.0.0.1", f"--port={port}", f"--ray-client-server-port={clients}"]
        head += ["--include-dashboard=false", f"--temp-dir={folder}"]
        second = [f"--address=127.0.0.1:{port}", "--node-ip-address=127.0.0.1"]

        def start(args: list[str]) -> "subprocess.Popen[bytes]":
            ray = [sys.executable, "-m", "ray.scripts.scripts", "start", *common, *args]
            quiet = subprocess.DEVNULL
            return subprocess.Popen(ray, env=environment(), stdout=quiet, stderr=quiet, stdin=quiet)

        begun = [start(head)]
        try:
            wait_for("head node", lambda: answers(clients))
            begun.append(start(second))
            wait_for("second node", lambda: any("raylet/raylet" in one for one in below(begun[1].pid).values()))
            yield clients, begun[1]
        finally:
            for node in begun:
                kill(node)


def test_a_node_that_dies_for_good_changes_no_byte(
    nodes: "tuple[int, subprocess.Popen[bytes]]", tmp_path: Path
) -> None:
    clients, second = nodes
    (tmp_path / "small.toml").write_text(SCENARIO.replace("5ms", "60ms"))
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace("seeds = 10", "seeds = 150"))
    run_count = 600
    expected = local(plan, tmp_path / "local")
    output = tmp_path / "out"
    command = [str(HITM), "sweep", str(plan), "-o", str(output), "--engine", f"ray://127.0.0.1:{clients}"]
    driver = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)

    def works() -> bool:
        assert driver.poll() is None, driver.communicate()[1]
        return any(one.startswith("ray::_make") for one in below(second.pid).values())

    wait_for("task on the second node", works)
    wait_for("run", lambda: len(started(output)) >= run_count // 10)
    killed_at = len(started(output))
    kill(second)
    errors = driver.communicate(timeout=SECONDS_MAX)[1]
    assert driver.returncode == 0, errors
    assert killed_at < run_count, "the sweep ended before its node was killed"
    assert (output / "results.parquet").read_bytes() == expected
    begun = started(output)
    assert len(set(begun)) == run_count
    # A task is at most 16 runs, and the one under way is made again from its first missing run on.
    assert len(begun) <= run_count + 2
