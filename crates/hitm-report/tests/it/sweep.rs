//! Reports of sweeps: text, JSON and page from rows.

use expect_test::expect;
use hitm::sweep::{Cell, Column, KeyType};
use hitm_report::sweep::{SweepReading, SweepReport, json, text};
use hitm_report::text::{PercentLimit, TextOptions};

fn columns() -> Vec<Column> {
    let text = |name| Column::of_type(name, KeyType::Text, "A column");
    let mut columns = vec![text("run"), text("scenario"), text("layout")];
    columns.push(Column::of_type("cpus", KeyType::Float, "A key"));
    columns.push(Column::of_type("seed", KeyType::Float, "The seed"));
    columns.extend([text("metric"), text("unit")]);
    columns.push(Column::of_type("value", KeyType::Float, "The value"));
    columns.push(text("failure"));
    columns
}

/// Two layouts on 8 and 64 CPUs with three seeds: the layout decides `time.spin`, and one run failed.
fn report() -> SweepReport {
    let mut reading = SweepReading::new(&columns()).unwrap();
    let text = |text: &str| Cell::Text(text.to_owned());
    for (layout, spin) in [("linux-6.12", 40.0), ("</script>", 10.0)] {
        for cpus in [64.0, 8.0] {
            for seed in 1..=3 {
                let name = format!("{layout} {cpus} {seed}");
                let seed = f64::from(seed);
                let key = [text(&name), text("ffmpeg"), text(layout)];
                let key = [&key[..], &[Cell::Float(cpus), Cell::Float(seed)]].concat();
                let value = spin + seed / 10.0 + cpus / 1_000.0;
                for (metric, unit, value) in [("time.spin", "%", value), ("runs", "count", seed)] {
                    let figure = [text(metric), text(unit), Cell::Float(value), Cell::Missing];
                    reading.add(&[&key[..], &figure].concat());
                }
            }
        }
    }
    let missing = vec![Cell::Missing; 3];
    let mut failed = vec![
        Cell::Missing,
        text("ffmpeg"),
        text("linux-6.12"),
        Cell::Float(512.0),
    ];
    failed.push(Cell::Missing);
    failed.extend(missing);
    failed.push(text("the machine has 480 CPUs"));
    reading.add(&failed);
    reading.finish("out/results.parquet".to_owned())
}

#[test]
fn the_text_says_what_moves_a_metric() {
    let options = TextOptions {
        width: 100,
        color: false,
        has_events: true,
        percent_limit: PercentLimit::NONE,
    };
    let text = text::render(&report(), &options).to_string();
    expect![[r#"
        hitm sweep: out/results.parquet
          12 runs at 4 points, 24 figures

        == Keys ============================================================================================
          key      unit values from       to
          scenario -         1 ffmpeg     ffmpeg
          layout   -         2 linux-6.12 </script>
          cpus     -         2 8          64

        == Metrics =========================================================================================
          metric    unit  runs  mean least  most
          time.spin %       12 25.24 10.11 40.36
          runs      count   12 2.000 1.000 3.000

        == Keys that explain a metric's spread =============================================================
          metric    key    explains% least at   mean most at     mean
          time.spin layout    100.0% </script> 10.24 linux-6.12 40.24

        == 1 failed ========================================================================================
          runs message
             1 the machine has 480 CPUs
    "#]].assert_eq(&text);
}

#[test]
fn json_has_the_fields() {
    let json: serde_json::Value = serde_json::from_str(&json::render(&report())).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["run"]["run_count"], 12);
    assert_eq!(json["run"]["failed_count"], 1);
    assert_eq!(json["keys"][2]["key"], "cpus");
    assert_eq!(json["keys"][2]["first"], "8");
    assert_eq!(json["effects"][0]["key"], "layout");
    assert!(json["effects"][0]["share"].as_f64().unwrap() > 0.99);
    assert_eq!(json["failures"][0]["message"], "the machine has 480 CPUs");
}

#[test]
fn the_page_has_points_of_keys_that_vary() {
    let html = hitm_report::page::sweep(&report());
    assert_eq!(html.matches("</script").count(), 2, "data and script");
    let start = html.find("id=\"data\">").unwrap() + 10;
    let data = &html[start..start + html[start..].find("</script>").unwrap()];
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let names: Vec<&str> = data["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["layout", "cpus"], "the scenario does not vary");
    assert_eq!(data["keys"][1]["values"], serde_json::json!([8.0, 64.0]));
    // The first point of the table is the second number of its key.
    assert_eq!(data["points"][0], serde_json::json!([0, 1]));
    assert_eq!(
        data["values"][0][0],
        serde_json::json!([40.164, 40.264, 40.364])
    );
    assert_eq!(html, hitm_report::page::sweep(&report()), "the same bytes");
}

#[test]
fn a_table_without_a_column_of_sweeps_is_none() {
    let mut columns = columns();
    columns.retain(|column| column.name != "metric");
    assert_eq!(SweepReading::new(&columns).unwrap_err(), "metric");
}
