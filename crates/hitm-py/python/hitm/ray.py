"""The engine Ray: `python3 -m hitm.ray PLAN -o DIR`, which `hitm sweep --engine ray` calls.

Runs are named by their content and their results stand in DIR, so this is thin: tasks are lists of
run numbers, Ray retries those of a worker that died, and a driver that starts again makes what is
missing. DIR must be a folder that all workers share.
"""

from __future__ import annotations

import argparse
import os
import sys
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


@lru_cache(maxsize=4)
def _sweep(text: str, folder: str) -> Sweep:
    return Sweep.of_text(text, folder)


def _make(text: str, folder: str, output: str, runs: list[int]) -> int:
    return _sweep(text, folder).run_some(output, runs)


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
        try:
            ray.init(address=address, num_cpus=None if address else jobs, log_to_driver=False)
        except ConnectionError as error:
            raise HitmError(f"cannot reach Ray at {address}: {error}") from error
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
