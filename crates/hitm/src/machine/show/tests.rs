use super::*;
use expect_test::expect;

#[test]
fn a_machine_is_shown_with_its_tree_latencies_and_sources() {
    let file = crate::machine::load("kunpeng920-96").unwrap();
    let shown = show_text(&file).unwrap();
    let start = shown.find("Caches").unwrap();
    expect![""].assert_eq(&shown[..start]);
    let sources = &shown[shown.find("Sources").unwrap()..];
    assert!(sources.contains("[1] two sockets of two dies"));
    assert!(sources.contains("assumed: 110 to 250 ns: not published"));
}

#[test]
fn the_home_rule_has_a_row_of_its_own() {
    let shown = show_text(&crate::machine::load("milan-2s").unwrap()).unwrap();
    let row = shown
        .lines()
        .find(|line| line.contains("home elsewhere"))
        .unwrap();
    expect![""].assert_eq(row);
}

#[test]
fn json_holds_every_number_of_the_file_and_the_table_of_the_engine() {
    for summary in list().unwrap() {
        let file = crate::machine::load(&summary.name).unwrap();
        let json: serde_json::Value = serde_json::from_str(&show_json(&file).unwrap()).unwrap();
        assert_eq!(json["schema"], 1);
        assert_eq!(json["cpu_count"], summary.cpu_count);
        assert_eq!(json["places"].as_array().unwrap().len(), summary.cpu_count);
        assert_eq!(json["numbers"].as_object().unwrap().len(), file.items.len());
        for number in json["numbers"].as_object().unwrap().values() {
            assert!(number["source"].is_string() != number["assumed"].is_string());
        }
    }
    let file = crate::machine::load("xeon8176-8s").unwrap();
    let json: serde_json::Value = serde_json::from_str(&show_json(&file).unwrap()).unwrap();
    assert_eq!(json["transfers"]["llc"]["occupancy_cycles"], 47);
    assert_eq!(json["numbers"]["transfers.far_remote.dirty"]["ns"], 336.6);
}
