"""The figures that papers of this field show, of the table of a sweep (needs `hitm[plot]`).

Each takes a table of `hitm.sweep` or anything that speaks Arrow, and returns an altair chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

__all__ = ["box", "curve", "heat_map", "pareto", "published"]


def _of(table: Any, metric: str | Sequence[str]) -> pl.DataFrame:
    """The rows of one metric or several."""
    frame = table if isinstance(table, pl.DataFrame) else pl.DataFrame(table)
    wanted = [metric] if isinstance(metric, str) else list(metric)
    found = frame.filter(pl.col("metric").is_in(wanted))
    for one in wanted:
        if found.filter(pl.col("metric") == one).is_empty():
            known = ", ".join(frame["metric"].drop_nulls().unique().sort())
            raise ValueError(f"metric: found {one!r}, expected one of {known}")
    return found


def _title(frame: pl.DataFrame, metric: str) -> str:
    unit = frame.filter(pl.col("metric") == metric)["unit"][0]
    return f"{metric} ({unit})"


def _field(name: str) -> str:
    """A column's name as altair takes it: a dot would be a path."""
    return name.replace(".", "\\.")


def _spread(frame: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Mean, least and largest over the seeds."""
    value = pl.col("value")
    spread = (value.mean().alias("mean"), value.min().alias("least"), value.max().alias("most"))
    return frame.group_by(list(by)).agg(*spread).sort(list(by))


def curve(
    table: Any, metric: str, over: str, *, color: str = "layout", log: bool = False
) -> alt.LayerChart:
    """A metric over a key: the mean of the seeds, and a band from the least to the largest."""
    frame = _of(table, metric)
    scale = alt.Scale(type="log") if log else alt.Scale(zero=False)
    base = alt.Chart(_spread(frame, [over, color])).encode(
        x=alt.X(f"{_field(over)}:Q", scale=scale, title=over),
        color=alt.Color(f"{_field(color)}:N", title=color),
    )
    title = _title(frame, metric)
    band = base.mark_area(opacity=0.25).encode(y=alt.Y("least:Q", title=title), y2="most:Q")
    line = base.mark_line(point=True).encode(y=alt.Y("mean:Q", title=title))
    return alt.layer(band, line)


def heat_map(table: Any, metric: str, x: str, y: str) -> alt.Chart:
    """A metric over two keys: the mean over all else."""
    frame = _of(table, metric)
    chart = alt.Chart(_spread(frame, [x, y])).mark_rect()
    return chart.encode(
        x=alt.X(f"{_field(x)}:O", title=x),
        y=alt.Y(f"{_field(y)}:O", title=y, sort="descending"),
        color=alt.Color("mean:Q", title=_title(frame, metric), scale=alt.Scale(scheme="viridis")),
        tooltip=[alt.Tooltip(f"{_field(x)}:O"), alt.Tooltip(f"{_field(y)}:O"), "mean:Q"],
    )


def published(table: Any, metric: str, points: Any, *, by: str = "layout") -> alt.LayerChart:
    """Published points on predictions: `points` has the column `by` and `published`."""
    frame = _of(table, metric)
    points = points if isinstance(points, pl.DataFrame) else pl.DataFrame(points)
    title = _title(frame, metric)
    base = alt.Chart(_spread(frame, [by])).encode(x=alt.X(f"{_field(by)}:N", title=by))
    range_ = base.mark_rule(strokeWidth=2).encode(y=alt.Y("least:Q", title=title), y2="most:Q")
    mean = base.mark_tick(thickness=2, width=20).encode(y=alt.Y("mean:Q", title=title))
    known = alt.Chart(points).mark_point(shape="diamond", filled=True, size=80, color="black")
    known = known.encode(
        x=alt.X(f"{_field(by)}:N", title=by), y=alt.Y("published:Q", title=title)
    )
    return alt.layer(range_, mean, known)


def box(table: Any, metric: str, by: str) -> alt.Chart:
    """Box plots of a metric over the seeds."""
    frame = _of(table, metric)
    chart = alt.Chart(frame).mark_boxplot(extent="min-max")
    return chart.encode(
        x=alt.X(f"{_field(by)}:N", title=by),
        y=alt.Y("value:Q", title=_title(frame, metric), scale=alt.Scale(zero=False)),
    )


def pareto(table: Any, cost: str, lines: dict[str, int], *, by: str = "layout") -> alt.LayerChart:
    """Cost against cache lines of each layout, and the front: no other has less of both.

    `lines` has the lines of each value of `by`.
    """
    frame = _of(table, cost)
    points = _spread(frame, [by]).with_columns(
        pl.col(by).replace_strict(lines, return_dtype=pl.Int64).alias("lines")
    )
    rows = points.sort("lines", "mean").iter_rows(named=True)
    front: list[str] = []
    least = float("inf")
    for row in rows:
        if row["mean"] < least:
            least = row["mean"]
            front.append(row[by])
    base = alt.Chart(points).encode(
        x=alt.X("lines:Q", title="cache lines", scale=alt.Scale(zero=False)),
        y=alt.Y("mean:Q", title=_title(frame, cost), scale=alt.Scale(zero=False)),
    )
    every = base.mark_point(filled=True, size=60).encode(color=alt.Color(f"{_field(by)}:N"))
    on_front = alt.FieldOneOfPredicate(field=by, oneOf=front)
    return alt.layer(base.mark_line(color="grey").transform_filter(on_front), every)
