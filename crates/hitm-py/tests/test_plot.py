"""The five figures, drawn from a table with two layouts."""

import pytest

pl = pytest.importorskip("polars")
pytest.importorskip("altair")

from hitm import plot  # noqa: E402


def table() -> "pl.DataFrame":
    rows = [
        {"layout": layout, "machine.cpus": cpus, "rate": rate, "seed": seed,
         "metric": "time.spin", "unit": "%", "value": factor * cpus * rate / 100 + seed}
        for layout, factor in [("a", 2.0), ("b", 1.0), ("c", 3.0)]
        for cpus in [8, 16]
        for rate in [100, 200]
        for seed in [1, 2, 3]
    ]
    return pl.DataFrame(rows)


def data(chart: object, layer: int | None = None) -> list[dict[str, object]]:
    spec = chart.to_dict()  # type: ignore[attr-defined]
    source = spec["data"] if layer is None or "data" in spec else spec["layer"][layer]["data"]
    rows: list[dict[str, object]] = spec["datasets"][source["name"]]
    return rows


def test_a_curve_has_the_spread_of_the_seeds() -> None:
    of_eight = table().filter(pl.col("machine.cpus") == 8)
    rows = data(plot.curve(of_eight, "time.spin", "rate"), 0)
    first = next(row for row in rows if row["layout"] == "a" and row["rate"] == 100)
    assert (first["least"], first["mean"], first["most"]) == (17.0, 18.0, 19.0)


def test_a_heat_map_has_a_cell_for_each_pair() -> None:
    of_a = table().filter(pl.col("layout") == "a")
    chart = plot.heat_map(of_a, "time.spin", "rate", "machine.cpus")
    assert len(data(chart)) == 4
    assert chart.to_dict()["encoding"]["y"]["field"] == "machine\\.cpus"


def test_boxes_have_every_seed() -> None:
    assert len(data(plot.box(table(), "time.spin", "layout"))) == 36


def test_published_points_stand_on_predictions() -> None:
    chart = plot.published(table(), "time.spin", pl.DataFrame({"layout": ["a"], "published": [20.0]}))
    assert len(chart.to_dict()["layer"]) == 3


def test_the_front_has_what_nothing_beats() -> None:
    chart = plot.pareto(table(), "time.spin", {"a": 3, "b": 4, "c": 5})
    front = chart.to_dict()["layer"][0]["transform"][0]["filter"]["oneOf"]
    # c takes more lines and more time than a.
    assert front == ["a", "b"]


def test_an_unknown_metric_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected one of time.spin"):
        plot.box(table(), "time.spni", "layout")
