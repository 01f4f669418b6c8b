"""The engine Ray: `python3 -m hitm.ray PLAN -o DIR`, which `hitm sweep --engine ray` calls.

Runs are named by their content and their results stand in DIR, so this is thin: tasks are lists of
run numbers, Ray retries those of a worker that died, and a driver that starts again makes what is
missing. DIR must be a folder that all workers share.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from . import HitmError, StrPath, plan_text
from ._hitm import Sweep

TASKS_PER_WORKER = 8
"""Tasks that wait for each worker: enough that none idles, few enough that a kill loses little."""
RUNS_PER_TASK = 16
"""At most: a task's overhead of some milliseconds is spread over them."""
ATTEMPTS_MAX = 5
"""Attempts to connect. A busy host needs some: gRPC aborts where Ray forks, and Ray gives a node half a minute."""
PAUSE_SECONDS = 1
"""Between two attempts. Ray itself takes half a minute to say that one failed."""


@lru_cache(maxsize=4)
def _sweep(text: str, folder: str) -> Sweep:
    return Sweep.of_text(text, folder)


def _make(text: str, folder: str, output: str, runs: list[int]) -> int:
    return _sweep(text, folder).run_some(output, runs)


def _connect(address: str | None, jobs: int | None) -> None:
    """Connects to Ray, and again when a cluster refuses or a node of this host starts too late."""
    import ray

    where = f"Ray at {address}" if address else "Ray on this host"
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            ray.init(address=address, num_cpus=None if address else jobs, log_to_driver=False)
            return
        except Exception as error:
            # Ray has no class for it.
            is_late = "timed out during startup" in str(error)
            if not is_late and not isinstance(error, ConnectionError):
                raise
            reason = str(error).strip().rpartition("\n")[2]
            # Another kind comes from a cluster that does not answer, and Ray has tried again by itself.
            is_refused = isinstance(error, ConnectionAbortedError)
            if attempt == ATTEMPTS_MAX or not (is_late or is_refused):
                times = f" ({attempt} times)" if attempt > 1 else ""
                raise HitmError(f"cannot reach {where}{times}: {reason}") from error
            print(
                f"hitm: {where} refuses, attempt {attempt + 1} of {ATTEMPTS_MAX} follows: {reason}",
                file=sys.stderr,
            )
            ray.shutdown()  # type: ignore[no-untyped-call]
            time.sleep(PAUSE_SECONDS)


def run(
    plan: StrPath | Mapping[str, Any],
    output: StrPath,
    *,
    address: str | None = None,
    jobs: int | None = None,
) -> Sweep:
    """Makes all missing runs on a Ray cluster, or on one of its own with `jobs` workers."""
    try:
        import ray
    except ImportError as error:
        raise HitmError("the engine ray needs the package ray: pip install 'hitm[ray]'") from error
    if isinstance(plan, Mapping):
        text, folder = plan_text(plan), os.getcwd()
    else:
        text, folder = Path(plan).read_text(), str(Path(plan).resolve().parent)
    output = str(Path(output).resolve())
    sweep = Sweep(plan) if not isinstance(plan, Mapping) else _sweep(text, folder)
    missing = sweep.missing(output)
    if not missing:
        return sweep
    if not ray.is_initialized():
        _connect(address, jobs)
    task = ray.remote(num_cpus=1, max_retries=-1)(_make)
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    workers = max(1, int(resources.get("CPU", 1)))
    size = max(1, min(RUNS_PER_TASK, len(missing) // (workers * TASKS_PER_WORKER)))
    chunks = (missing[at : at + size] for at in range(0, len(missing), size))
    waiting: list[Any] = []
    for chunk in chunks:
        if len(waiting) >= workers * TASKS_PER_WORKER:
            done, waiting = ray.wait(waiting)
            ray.get(done)
        waiting.append(task.remote(text, folder, output, chunk))
    ray.get(waiting)
    return sweep


def main() -> int:
    parser = argparse.ArgumentParser(prog="hitm.ray", description=__doc__)
    parser.add_argument("plan")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--address")
    parser.add_argument("--jobs", type=int)
    args = parser.parse_args()
    try:
        sweep = run(args.plan, args.output, address=args.address, jobs=args.jobs)
        path = sweep.compact(args.output)
    except HitmError as error:
        print(f"hitm: error: {error}", file=sys.stderr)
        return 3 if "pip install" in str(error) else 2
    print(f"hitm: wrote {path}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    # Workers look for what they run in the module, not in __main__.
    from hitm.ray import main as main_of_module

    sys.exit(main_of_module())
