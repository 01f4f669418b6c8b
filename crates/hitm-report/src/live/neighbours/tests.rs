use expect_test::expect;
use hitm_live::neighbours::{GroupTaker, NeighbourReport, ProcessTaker, WaitingGroup};
use serde_json::Value;

use super::*;

fn report() -> NeighbourReport {
    let taker = |path: &str, ns, is_own| GroupTaker {
        ns,
        of_ns: 8_000_000_000,
        is_own,
        path: path.to_owned(),
        container: path.starts_with("/pods").then(|| "shop/db".to_owned()),
    };
    let process = |pid, comm: &str, path: &str, ns| ProcessTaker {
        ns,
        pid,
        comm: comm.to_owned(),
        path: path.to_owned(),
    };
    NeighbourReport {
        duration_ns: 5_000_000_000,
        groups: vec![WaitingGroup {
            path: "/pods/db".to_owned(),
            container: Some("shop/db".to_owned()),
            waited_ns: 8_000_000_000,
            others_ns: 4_500_000_000,
            own_ns: 1_500_000_000,
            quota_ns: 1_900_000_000,
            idle_ns: 90_000_000,
            interrupt_ns: None,
            steal_ns: Some(10_000_000),
            takers: vec![
                taker("/batch", 4_500_000_000, false),
                taker("/pods/db", 1_500_000_000, true),
            ],
            processes: vec![
                process(70, "gcc\n", "/batch", 4_500_000_000),
                process(80, "postgres", "/pods/db", 1_500_000_000),
            ],
        }],
        lost_places: 1200,
        ..NeighbourReport::default()
    }
}

#[test]
fn the_report_as_text() {
    expect![[r#"
        Ready without a CPU in 5.00 s, by BPF programs: 8.00 s in all, each task's time counted.

           waited    others own tasks     quota  idle CPU interrupts     steal group
           8.00 s    4.50 s    1.50 s    1.90 s   90.0 ms          -   10.0 ms /pods/db (shop/db)

        These ran while /pods/db waited:
              ran  of wait group
           4.50 s    56.2% /batch
           1.50 s    18.8% /pods/db (shop/db)
              ran  process name            group
           4.50 s       70 gcc\n           /batch
           1.50 s       80 postgres        /pods/db

        This kernel does not count the time of interrupts (CONFIG_IRQ_TIME_ACCOUNTING): it is with the tasks that were interrupted.
        1,200 waits were lost: 64 groups waited on one CPU.
    "#]].assert_eq(&text(&report()));
}

#[test]
fn nobody_waits() {
    let report = NeighbourReport {
        duration_ns: 1_000_000_000,
        ..NeighbourReport::default()
    };
    expect![[r#"
        Ready without a CPU in 1.00 s, by BPF programs: 0 ns in all, each task's time counted.
    "#]]
    .assert_eq(&text(&report));
}

#[test]
fn the_report_as_json_has_rows_of_groups_and_processes() {
    let value: Value = serde_json::from_str(&json(&report())).unwrap();
    assert_eq!(value["schema"], 1);
    assert_eq!(value["waited_ns"], 8_000_000_000_u64);
    let group = &value["groups"][0];
    assert_eq!(group["quota_ns"], 1_900_000_000_u64);
    assert_eq!(group["interrupt_ns"], Value::Null);
    assert_eq!(group["takers"][0]["share"], 0.5625);
    assert_eq!(group["takers"][1]["is_own"], true);
    assert_eq!(group["processes"][0]["comm"], "gcc\n");
}
