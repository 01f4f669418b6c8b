#[path = "../../../../hitm-live/src/wakeups/tests/samples.rs"]
mod samples;

use expect_test::expect;
use hitm_live::wakeups::{Measured, RunDelay, TaskLatencies, WakeupReport, WakeupTable};
use serde_json::Value;

use super::*;
use samples::latencies;

fn report() -> WakeupReport {
    let task = |tid, comm: &str, latencies| TaskLatencies {
        tid,
        pid: tid,
        comm: comm.to_owned(),
        latencies,
    };
    WakeupReport {
        duration_ns: 2_000_000_000,
        measured: Measured::Wakeups(WakeupTable {
            tasks: vec![
                task(7, "fast", latencies(30, 0)),
                task(9, "slow\n", latencies(60, 10)),
            ],
            cpus: vec![(0, latencies(50, 4)), (3, latencies(40, 6))],
            count: 100,
            lost_wakes: 0,
            lost_tasks: 2,
        }),
    }
}

fn parsed(report: &WakeupReport) -> Value {
    serde_json::from_str(&json(report)).unwrap()
}

#[test]
fn the_report_as_text() {
    expect![[r#"
        Wake-ups for 2.00 s, by BPF programs: 100, each from waking to running.

        All (ns):
        [1K, 2K)                90 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
        [2K, 4K)                 0 |                                                    |
        [4K, 8K)                 0 |                                                    |
        [8K, 16K)                0 |                                                    |
        [16K, 32K)               0 |                                                    |
        [32K, 64K)               0 |                                                    |
        [64K, 128K)             10 |@@@@@                                               |

             CPU  wake-ups       p50       p99   longest
               0        54   1.15 us   70.0 us   70.0 us
               3        46   1.15 us   70.0 us   70.0 us

        Tasks, the longest latency first:
          thread  wake-ups       p50       p99   longest name
               9        70   1.15 us   70.0 us   70.0 us slow\n
               7        30   1.15 us   1.15 us   1.20 us fast

        slow\n (9) (ns):
        [1K, 2K)                60 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
        [2K, 4K)                 0 |                                                    |
        [4K, 8K)                 0 |                                                    |
        [8K, 16K)                0 |                                                    |
        [16K, 32K)               0 |                                                    |
        [32K, 64K)               0 |                                                    |
        [64K, 128K)             10 |@@@@@@@@                                            |

        fast (7) (ns):
        [1K, 2K)                30 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
        2 wake-ups are in the rows of CPUs alone: 4,096 tasks have rows.
    "#]]
    .assert_eq(&text(&report()));
}

#[test]
fn run_delays_are_named_as_such() {
    let report = WakeupReport {
        duration_ns: 1_000_000_000,
        measured: Measured::RunDelays {
            reason: "BPF programs need root".to_owned(),
            delays: vec![RunDelay {
                tid: 4,
                comm: "busy".to_owned(),
                run_delay_ns: 80_000_000,
                runs: 40,
            }],
        },
    };
    expect![[r#"
        Run delays for 1.00 s, by schedstat: BPF programs need root.
        They are sums: of tasks that were preempted as well as of those that were woken.

          thread      runs     delay     a run name
               4        40   80.0 ms   2.00 ms busy
    "#]]
    .assert_eq(&text(&report));
    assert_eq!(parsed(&report)["source"], "schedstat");
}

#[test]
fn the_report_as_json_has_rows_of_tasks_and_cpus() {
    let value = parsed(&report());
    assert_eq!(value["tasks"][1]["comm"], "slow\n");
    assert_eq!(value["cpus"][1]["cpu"], 3);
    assert_eq!(
        value["cpus"][1]["histogram"][1],
        serde_json::json!({ "from_ns": 65_536, "count": 6 })
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a golden, which is longer than code")]
fn json_of_the_whole() {
    expect![[r#"
        {
          "count": 100,
          "cpus": [
            {
              "count": 54,
              "cpu": 0,
              "histogram": [
                {
                  "count": 50,
                  "from_ns": 1024
                },
                {
                  "count": 4,
                  "from_ns": 65536
                }
              ],
              "longest_ns": 70000,
              "p50_ns": 1152,
              "p99_ns": 70000,
              "sum_ns": 335000
            },
            {
              "count": 46,
              "cpu": 3,
              "histogram": [
                {
                  "count": 40,
                  "from_ns": 1024
                },
                {
                  "count": 6,
                  "from_ns": 65536
                }
              ],
              "longest_ns": 70000,
              "p50_ns": 1152,
              "p99_ns": 70000,
              "sum_ns": 464000
            }
          ],
          "duration_ns": 2000000000,
          "lost_tasks": 2,
          "lost_wakes": 0,
          "schema": 1,
          "source": "bpf",
          "tasks": [
            {
              "comm": "fast",
              "count": 30,
              "histogram": [
                {
                  "count": 30,
                  "from_ns": 1024
                }
              ],
              "longest_ns": 1200,
              "p50_ns": 1152,
              "p99_ns": 1152,
              "pid": 7,
              "sum_ns": 33000,
              "tid": 7
            },
            {
              "comm": "slow\n",
              "count": 70,
              "histogram": [
                {
                  "count": 60,
                  "from_ns": 1024
                },
                {
                  "count": 10,
                  "from_ns": 65536
                }
              ],
              "longest_ns": 70000,
              "p50_ns": 1152,
              "p99_ns": 70000,
              "pid": 9,
              "sum_ns": 766000,
              "tid": 9
            }
          ]
        }"#]]
    .assert_eq(json(&report()).trim_end());
    let delays = vec![RunDelay {
        tid: 4,
        comm: "busy".to_owned(),
        run_delay_ns: 80_000_000,
        runs: 40,
    }];
    let measured = Measured::RunDelays {
        reason: "no root".to_owned(),
        delays,
    };
    let report = WakeupReport {
        duration_ns: 1,
        measured,
    };
    expect![[r#"
        {
          "duration_ns": 1,
          "reason": "no root",
          "schema": 1,
          "source": "schedstat",
          "tasks": [
            {
              "comm": "busy",
              "run_delay_ns": 80000000,
              "runs": 40,
              "tid": 4
            }
          ]
        }"#]]
    .assert_eq(json(&report).trim_end());
}
