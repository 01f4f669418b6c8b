use expect_test::expect;

use super::*;

#[test]
fn a_machine_is_shown_with_its_tree_latencies_and_sources() {
    let file = hitm_machine::load("kunpeng920-96").unwrap();
    let shown = show_text(&file).unwrap();
    let start = shown.find("Caches").unwrap();
    expect![[r#"
        kunpeng920-96: 2x Kunpeng 920, 48 cores each: 96 CPUs

        Tree [1]
          2 x package: CPUs 0-95, first 0-47
            2 x die: CPUs 0-47, first 0-23
              6 x cluster: CPUs 0-23, first 0-3
                4 x core: CPUs 0-3, first 0
          96 CPUs, 96 cores, 4 last-level caches, 4 NUMA nodes, 2 packages

        Latencies in cycles (ns) [source], ? assumed
          from           clean copy           modified             line taken for
          same cluster   89 (34.4 ns) [2]?    89 (34.4 ns) [3]     42 (16.2 ns)
          same LLC       93 (35.9 ns) [4]?    93 (35.9 ns) [5]     44 (16.9 ns)
          same package   205 (78.9 ns) [6]?   205 (78.9 ns) [7]    96 (36.9 ns)
          other package  416 (160.0 ns) [8]?  416 (160.0 ns) [9]?  279 (107.3 ns)

    "#]]
    .assert_eq(&shown[..start]);
    let sources = &shown[shown.find("Sources").unwrap()..];
    assert!(sources.contains("[1] two sockets of two dies"));
    assert!(sources.contains("assumed: 110 to 250 ns: not published"));
}

#[test]
fn the_home_rule_has_a_row_of_its_own() {
    let shown = show_text(&hitm_machine::load("milan-2s").unwrap()).unwrap();
    let row = shown
        .lines()
        .find(|line| line.contains("home elsewhere"))
        .unwrap();
    expect!["  same die, home elsewhere  719 (199.6 ns) [10]?  719 (199.6 ns) [11]  338 (93.9 ns)"]
        .assert_eq(row);
}

#[test]
fn json_holds_every_number_of_the_file_and_the_table_of_the_engine() {
    for summary in hitm_machine::list().unwrap() {
        let file = hitm_machine::load(&summary.name).unwrap();
        let json: serde_json::Value = serde_json::from_str(&show_json(&file).unwrap()).unwrap();
        assert_eq!(json["schema"], 1);
        assert_eq!(json["cpu_count"], summary.cpu_count);
        assert_eq!(json["places"].as_array().unwrap().len(), summary.cpu_count);
        assert_eq!(json["numbers"].as_object().unwrap().len(), file.items.len());
        for number in json["numbers"].as_object().unwrap().values() {
            assert!(number["source"].is_string() != number["assumed"].is_string());
        }
    }
    let file = hitm_machine::load("xeon8176-8s").unwrap();
    let json: serde_json::Value = serde_json::from_str(&show_json(&file).unwrap()).unwrap();
    assert_eq!(json["transfers"]["llc"]["occupancy_cycles"], 133);
    assert_eq!(json["numbers"]["transfers.far_remote.dirty"]["ns"], 336.6);
}
