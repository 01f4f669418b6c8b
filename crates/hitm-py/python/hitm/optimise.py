"""The search of `hitm sweep --optimise METRIC --within KEY=RANGE`, by Optuna (needs `hitm[optimise]`).

A trial is the plan at one point of the ranges: ordinary runs, named by their content. A search that is
started again finds their results and comes to the same answer, as its sampler has a fixed seed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import HitmError, StrPath, read_table
from ._hitm import Sweep

_QUANTITY = re.compile(r"(-?[0-9.]+)\s*(ns|us|ms|s|/s)?")
_NANOS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@dataclass(frozen=True)
class Within:
    """A key and its range, `KEY=FROM..TO`, or its values, `KEY=A,B,C`."""

    key: str
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = 0
    unit: str = ""

    @staticmethod
    def parse(text: str) -> Within:
        key, _, values = text.partition("=")
        if not key or not values:
            raise HitmError(f"--within {text}: expected KEY=FROM..TO or KEY=A,B")
        if ".." not in values:
            return Within(key, choices=tuple(values.split(",")))
        ends = [_QUANTITY.fullmatch(end.strip()) for end in values.split("..", 1)]
        if ends[0] is None or ends[1] is None:
            raise HitmError(f"--within {text}: expected two numbers, times or rates")
        (low, low_unit), (high, high_unit) = (_base(end) for end in ends if end is not None)
        if low_unit != high_unit or low >= high:
            raise HitmError(f"--within {text}: expected two ends of one unit, the least first")
        return Within(key, low=low, high=high, unit=low_unit)

    def suggest(self, trial: Any) -> str:
        """The value of a trial, as TOML."""
        if self.choices:
            chosen: str = trial.suggest_categorical(self.key, self.choices)
            is_bare = re.fullmatch(r"-?[0-9.]+|true|false", chosen)
            return chosen if is_bare else f'"{chosen}"'
        if self.unit == "fraction":
            # Six digits, as ranges of a plan have them.
            return repr(float(f"{trial.suggest_float(self.key, self.low, self.high):.6g}"))
        number = trial.suggest_int(self.key, int(self.low), int(self.high), log=self.low > 0)
        return str(number) if self.unit == "" else f'"{number}{self.unit}"'


def _base(match: re.Match[str]) -> tuple[float, str]:
    """A number in the base of its unit."""
    number, unit = float(match[1]), match[2] or ""
    if unit in _NANOS:
        return number * _NANOS[unit], "ns"
    if unit == "" and "." in match[1]:
        return number, "fraction"
    return number, unit


def search(
    plan: StrPath,
    output: StrPath,
    metric: str,
    within: Sequence[Within],
    *,
    trials: int = 50,
    largest: bool = False,
    jobs: int | None = None,
) -> tuple[dict[str, Any], float]:
    """The best point and the mean of the metric there."""
    try:
        import optuna
    except ImportError as error:
        raise HitmError("the search needs the package optuna: pip install 'hitm[optimise]'") from error
    text, folder = Path(plan).read_text(), Path(plan).resolve().parent
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial: Any) -> float:
        # Tables of the file are ended by these: keys of a plan come before its tables.
        axes = "".join(
            f'\n[[vary]]\nkey = "{one.key}"\nvalues = [{one.suggest(trial)}]\n' for one in within
        )
        runs = Sweep.of_text(text + axes, folder)
        runs.run(output, jobs=jobs)
        rows = read_table(runs.compact(output)).to_dict()
        values: list[float] = [
            value for id_, value in zip(rows["metric"], rows["value"]) if id_ == metric
        ]
        known = sorted({id_ for id_ in rows["metric"] if id_ is not None})
        if not values and known:
            raise HitmError(f"--optimise {metric}: no run has this metric, expected one of {', '.join(known)}")
        if not values:
            # All runs of this point failed.
            raise optuna.TrialPruned()
        mean: float = sum(values) / len(values)
        return mean

    study = optuna.create_study(
        direction="maximize" if largest else "minimize",
        sampler=optuna.samplers.TPESampler(seed=1),
    )
    study.optimize(objective, n_trials=trials)
    if not any(trial.state == optuna.trial.TrialState.COMPLETE for trial in study.trials):
        raise HitmError(f"--optimise {metric}: the runs of every point failed")
    best: tuple[dict[str, Any], float] = (study.best_params, study.best_value)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(prog="hitm.optimise", description=__doc__)
    parser.add_argument("plan")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--metric", required=True)
    parser.add_argument("--within", action="append", required=True)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--largest", action="store_true")
    parser.add_argument("--jobs", type=int)
    args = parser.parse_args()
    try:
        within = [Within.parse(text) for text in args.within]
        best, value = search(
            args.plan,
            args.output,
            args.metric,
            within,
            trials=args.trials,
            largest=args.largest,
            jobs=args.jobs,
        )
    except HitmError as error:
        print(f"hitm: error: {error}", file=sys.stderr)
        return 3 if "pip install" in str(error) else 2
    for one in within:
        unit = "" if one.unit == "fraction" else one.unit
        print(f"{one.key} = {best[one.key]}{unit}")
    print(f"{args.metric} = {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
