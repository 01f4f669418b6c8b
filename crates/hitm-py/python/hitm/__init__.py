"""hitm: who fights over which cache line, on machines that you do not have.

    import hitm
    result = hitm.simulate("000-root-domain/ffmpeg", quick=True, **{"machine.cpus": 96})
    result.metrics          # a table: polars.DataFrame(result.metrics), pandas, pyarrow and DuckDB too

All logic is hitm's own; tables are Arrow, read by any library that speaks its PyCapsule interface.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from . import _hitm
from ._hitm import HitmError, Sweep, Table, __version__, read_table

__all__ = [
    "HitmError",
    "Layout",
    "Report",
    "Simulation",
    "Sweep",
    "Table",
    "Whatif",
    "__version__",
    "layout",
    "layout_list",
    "machine",
    "machines",
    "read_table",
    "record",
    "report",
    "simulate",
    "sweep",
    "whatif",
]

StrPath = Union[str, "os.PathLike[str]"]
Progress = Callable[[int, int, int], object]


@dataclass(frozen=True)
class Simulation:
    """The result of `simulate`."""

    data: dict[str, Any]
    """All of it, as docs/formats/sim.md describes."""
    metrics: Table
    """A row for each variant and figure."""


@dataclass(frozen=True)
class Report:
    """The result of `report`."""

    data: dict[str, Any]
    """All of it, as docs/formats/report.md describes."""
    lines: Table
    """The contended lines, the costliest first."""
    rows: Table
    """The places in each line and who uses them; the first column is the line's."""
    threads: Table


@dataclass(frozen=True)
class Whatif:
    """The result of `whatif`."""

    data: dict[str, Any]
    """All of it, as docs/formats/whatif.md describes."""
    runs: Table
    """The two runs: the column `run` is "before" (as recorded) or "after" (as replayed)."""
    lines: Table
    """Lines that are contended in either run, the costliest first."""
    threads: Table
    members: Table
    """Members of the moved structures; none where nothing moved."""
    objects: Table
    """Objects that were moved."""


@dataclass(frozen=True)
class Layout:
    """The result of `layout`."""

    data: dict[str, Any]
    """All of it, as docs/formats/layout.md describes."""
    members: Table
    """The members by offset, each before its own members; `path` and `depth` say whose they are."""


def _toml(value: object) -> str:
    """A value of a setting."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    # JSON escapes as TOML does.
    return json.dumps(str(value), ensure_ascii=False)


def simulate(
    scenario: StrPath,
    *,
    machine: str | None = None,
    layout: str | Sequence[str] = (),
    quick: bool = False,
    seed: int | None = None,
    seeds: int | None = None,
    **overrides: object,
) -> Simulation:
    """Runs a scenario file, or a shipped one such as "000-root-domain/ffmpeg".

    `overrides` are keys of the scenario: `simulate(path, kernel__tick="1000/s")` or
    `simulate(path, **{"kernel.tick": "1000/s"})`.
    """
    layouts = [layout] if isinstance(layout, str) else list(layout)
    settings = [f"{key.replace('__', '.')}={_toml(value)}" for key, value in overrides.items()]
    text, metrics = _hitm.simulate(
        os.fspath(scenario),
        settings=settings,
        machine=machine,
        layouts=layouts,
        quick=quick,
        seed=seed,
        seeds=seeds,
    )
    return Simulation(json.loads(text), metrics)


def report(path: StrPath = "hitm.data", *, top: int = 20) -> Report:
    """Reads a recording, or samples of perf c2c (perf.data)."""
    text, lines, rows, threads = _hitm.report(path, top=top)
    return Report(json.loads(text), lines, rows, threads)


def whatif(
    path: StrPath = "hitm.data",
    *,
    layout: StrPath | Sequence[StrPath] = (),
    instances: Sequence[str] = (),
    machine: str | None = None,
    threads_to: str | None = None,
    top: int = 20,
) -> Whatif:
    """Runs a recording again with members moved, on another machine, or with threads elsewhere.

    `top` is how many lines, and how many objects, the result has at most.
    """
    layouts = [layout] if isinstance(layout, (str, os.PathLike)) else list(layout)
    text, tables = _hitm.whatif(
        path,
        layouts=layouts,
        instances=list(instances),
        machine=machine,
        threads_to=threads_to,
        top=top,
    )
    return Whatif(json.loads(text), *tables)


def layout(
    name: str, file: StrPath | None = None, *, expand: bool = False, line_size: int = 64
) -> Layout:
    """A structure in cache lines: of a file, or of the running kernel."""
    text, members = _hitm.layout(name, file=file, expand=expand, line_size=line_size)
    return Layout(json.loads(text), members)


def layout_list(pattern: str | None = None, file: StrPath | None = None) -> list[str]:
    """Names of the structures of a file, or of the running kernel, that match a pattern."""
    names: list[str] = _hitm.layout_list(pattern, file=file)
    return names


def machine(name: str) -> dict[str, Any]:
    """A machine model: one that comes with hitm, a file, or "host"."""
    shown: dict[str, Any] = json.loads(_hitm.machine(name))
    return shown


def machines() -> list[str]:
    """Names of the machine models that come with hitm."""
    names: list[str] = _hitm.machines()
    return names


def record(
    command: Sequence[StrPath],
    output: StrPath = "hitm.data",
    *,
    machine: str | None = None,
    threads_to: str | None = None,
    duration: str | None = None,
) -> Report:
    """Records a program under QEMU and reads the recording. The program's output is its own.

    QEMU's user-mode emulator (Debian: qemu-user) must be in PATH.
    """
    from . import _program

    args = [_program.path(), "record", "-o", os.fspath(output)]
    options = {"--machine": machine, "--threads-to": threads_to, "--duration": duration}
    for option, value in options.items():
        if value is not None:
            args += [option, value]
    command_line = [*args, "--", *(os.fspath(word) for word in command)]
    done = subprocess.run(command_line, stderr=subprocess.PIPE, text=True, check=False)
    notes = done.stderr.splitlines(keepends=True)
    errors = [line for line in notes if line.startswith("hitm: error: ")]
    sys.stderr.writelines(line for line in notes if not line.startswith("hitm: "))
    if errors:
        raise HitmError(errors[-1].removeprefix("hitm: error: ").strip())
    return report(output)


def sweep(
    plan: StrPath | Mapping[str, Any],
    output: StrPath,
    *,
    engine: str = "local",
    jobs: int | None = None,
    progress: Progress | bool = True,
) -> Table:
    """Makes all runs of a plan that `output` has not got, and returns the table of all.

    `plan` is a file, or its content as a mapping, whose paths count from the working directory.
    `engine` is "local", "ray" or "ray://ADDRESS". `progress` is called with runs done, runs to do
    and failures; True shows them on standard error.
    """
    if engine == "local":
        runs = _plan(plan)
        runs.run(output, jobs=jobs, progress=_Shown() if progress is True else progress or None)
    elif engine.startswith("ray"):
        from . import ray as with_ray

        address = engine if engine.startswith("ray://") else None
        runs = with_ray.run(plan, output, address=address, jobs=jobs)
    else:
        raise HitmError(f"engine: found {engine!r}, expected local, ray or ray://ADDRESS")
    return read_table(runs.compact(output))


def _plan(plan: StrPath | Mapping[str, Any]) -> Sweep:
    if isinstance(plan, Mapping):
        return Sweep.of_text(plan_text(plan), ".")
    return Sweep(plan)


def plan_text(plan: Mapping[str, Any]) -> str:
    """The TOML of a plan."""

    def inline(value: object) -> str:
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{key} = {inline(item)}" for key, item in value.items()) + "}"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(map(inline, value)) + "]"
        return _toml(value)

    return "".join(f"{key} = {inline(value)}\n" for key, value in plan.items())


class _Shown:
    """Progress in one line: of a terminal or of a notebook's output."""

    def __init__(self) -> None:
        self.last = ""

    def __call__(self, done: int, all_: int, failed: int) -> None:
        text = f"{done} of {all_} runs" + (f", {failed} failed" if failed else "")
        if all_ and text != self.last:
            self.last = text
            print(f"\r{text}", end="\n" if done == all_ else "", file=sys.stderr, flush=True)
