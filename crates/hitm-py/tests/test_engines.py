"""`hitm sweep` with the engine ray and with a search, through the command line."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import HITM, PLAN, SCENARIO, wait_for

import hitm
import hitm.ray


def environment(**further: str) -> dict[str, str]:
    """The Python of these tests is the one that hitm finds."""
    folder = str(Path(sys.executable).parent)
    # The nodes of a test listen on this host only, and have no token to share.
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "RAY_AUTH_MODE": "disabled", **further}


def sweep(*args: object, **further: str) -> "subprocess.CompletedProcess[str]":
    command = [str(HITM), "sweep", *map(str, args)]
    return subprocess.run(command, env=environment(**further), capture_output=True, text=True, check=False)


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
    # Ray itself tries three times, for five seconds and longer each time.
    waits = {"RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "1", "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "1"}
    done = sweep(plan, "-o", tmp_path / "out", "--engine", "ray://127.0.0.1:1", **waits)
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


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Cluster:
    """Nodes on this host."""

    folder: Path
    """Of its head. Sockets of Ray have long names below it, and a name of a socket is short."""
    port: int
    """For clients."""
    environment: dict[str, str]
    nodes: "list[subprocess.Popen[bytes]]"

    def start(self, *args: str) -> "subprocess.Popen[bytes]":
        """Starts a node and waits until the cluster has it."""
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", *args, "--node-ip-address=127.0.0.1"]
        ray += ["--block", "--object-store-memory=90000000", "--disable-usage-stats"]
        while True:
            said = self.folder / f"said-{len(self.nodes)}"
            with said.open("wb") as file:
                node = subprocess.Popen(
                    ray, env=self.environment, stdout=file, stderr=file, stdin=subprocess.DEVNULL
                )
            self.nodes.append(node)
            wait_for("node", lambda: node.poll() is not None or "Ray runtime started" in said.read_text())
            if node.poll() is None:
                return node
            # Ray gives a node half a minute, which is too short on a busy host.
            assert "timed out during startup" in said.read_text(), said.read_text()

    def start_head(self, cpus: int) -> None:
        args = ["--head", f"--num-cpus={cpus}", "--port=0", f"--ray-client-server-port={self.port}"]
        self.start(*args, "--include-dashboard=false", f"--temp-dir={self.folder}")
        wait_for("server for clients", lambda: answers(self.port))

    def start_worker(self) -> "subprocess.Popen[bytes]":
        """Starts a node of one CPU, which finds the head by the address that it chose."""
        head = (self.folder / "ray_current_cluster").read_text().strip()
        return self.start("--num-cpus=1", f"--address={head}")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster with no node yet."""
    pytest.importorskip("ray")
    folder = tempfile.TemporaryDirectory(prefix="hitm-ray-", dir="/tmp", ignore_cleanup_errors=True)
    # Ray takes no port 0 for its clients. gRPC shares a port with this socket, which keeps it from all others.
    with folder as name, socket.socket() as port:
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        port.bind(("0.0.0.0", 0))
        # A head on a busy host refuses one client in four without it.
        made = Cluster(Path(name), port.getsockname()[1], environment(GRPC_ENABLE_FORK_SUPPORT="0"), [])
        try:
            yield made
        finally:
            for node in made.nodes:
                kill(node)


REFUSES = """import pathlib, sys
left = pathlib.Path(__file__).with_name("left")
if "--mode=specific-server" in sys.orig_argv and left.exists() and (count := int(left.read_text())):
    left.write_text(str(count - 1))
    sys.exit("as the test wants")
"""
"""Python reads sitecustomize.py at its start. Ray starts one process for each client, and the first ones end."""


def test_a_cluster_that_refuses_at_first_is_asked_again(cluster: Cluster, plan: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(REFUSES)
    cluster.environment["PYTHONPATH"] = str(tmp_path)
    cluster.start_head(cpus=1)
    address = f"ray://127.0.0.1:{cluster.port}"
    (tmp_path / "left").write_text("1")
    done = sweep(plan, "-o", tmp_path / "out", "--engine", address)
    assert done.returncode == 0, done.stderr
    [refused, wrote] = [line for line in done.stderr.splitlines() if line.startswith("hitm: ")]
    # Ray takes half a minute to say so.
    assert refused.startswith(f"hitm: Ray at {address} refuses, attempt 2 of 5 follows: RuntimeError: "), refused
    assert wrote == f"hitm: wrote {tmp_path}/out/results.parquet"


@pytest.mark.parametrize(
    ("address", "where", "error"),
    [
        ("ray://head:1", "Ray at ray://head:1", ConnectionAbortedError("Initialization failure:\nwhy")),
        (None, "Ray on this host", Exception("The current node timed out during startup:\nwhy")),
    ],
)
def test_attempts_have_a_limit(
    address: str | None,
    where: str,
    error: Exception,
    plan: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ray = pytest.importorskip("ray")
    attempts = 0

    def refuse(**_: object) -> None:
        nonlocal attempts
        attempts += 1
        raise error

    # Each attempt on a real cluster takes half a minute.
    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr(hitm.ray, "PAUSE_SECONDS", 0)
    with pytest.raises(hitm.HitmError, match=re.escape(f"cannot reach {where} (5 times): why")):
        hitm.ray.run(plan, tmp_path / "out", address=address)
    assert attempts == 5
    said = [f"hitm: {where} refuses, attempt {next} of 5 follows: why" for next in range(2, 6)]
    assert capsys.readouterr().err.splitlines() == said


def test_a_node_that_dies_for_good_changes_no_byte(cluster: Cluster, tmp_path: Path) -> None:
    # The head makes no runs, so that the worker has some at any speed of the host.
    cluster.start_head(cpus=0)
    worker = cluster.start_worker()
    (tmp_path / "small.toml").write_text(SCENARIO.replace("5ms", "60ms"))
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace("seeds = 10", "seeds = 50"))
    run_count = 200
    expected = local(plan, tmp_path / "local")
    output = tmp_path / "out"
    command = [str(HITM), "sweep", str(plan), "-o", str(output), "--engine", f"ray://127.0.0.1:{cluster.port}"]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as driver:

        def has_made_some() -> bool:
            assert driver.poll() is None, driver.communicate()[1]
            return len(started(output)) >= run_count // 10

        wait_for("runs", has_made_some)
        kill(worker)
        killed_at = len(started(output))
        cluster.start_worker()
        errors = driver.communicate()[1]
    assert driver.returncode == 0, errors
    assert killed_at < run_count, "the sweep ended before its node was killed"
    assert (output / "results.parquet").read_bytes() == expected
    begun = started(output)
    assert len(set(begun)) == run_count
    # A task is at most 16 runs, and the one under way is made again from its first missing run on.
    assert len(begun) <= run_count + 2
