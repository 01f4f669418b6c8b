"""From samples of perf c2c to a plot of what their hottest lines cost, in ten lines."""

import sys

import altair as alt
import polars as pl

import hitm

report = hitm.report(sys.argv[1] if len(sys.argv) > 1 else "perf.data")
lines = pl.DataFrame(report.lines).head(10)
chart = alt.Chart(lines).mark_bar().encode(x="remote_hitm_count:Q", y=alt.Y("address:N", sort="-x"))
chart.save("lines.html")
