//! `hitm review` as a user meets it.

use std::fs;
use std::path::Path;

use expect_test::expect;
use serde_json::Value;

use crate::{check, programs};

fn path(below: &str) -> String {
    programs::root().join(below).display().to_string()
}

#[test]
fn the_root_domain_patch_is_reviewed_on_four_machines() {
    let profile = path("profiles/root-domain-c2c.csv");
    check(
        &[
            "review",
            "linux-6.12",
            "root-domain-restructured",
            "-p",
            &profile,
        ],
        expect![[r#"
            exit code 0
            -- stdout
            hitm review: linux-6.12 -> root-domain-restructured
              profile: root-domain-c2c
              Types of both builds: 1; layouts that differ: 1.

            == root_domain =====================================================================================
              memory: size 1,816 -> 1,984, lines 29 -> 31, holes 3 -> 5, bytes in holes 14 -> 120, padding 0 ->
                      62

              machine       CPUs folded CPUs before   after change% confidence
              xeon-480       480           - 5.596M  3.202M   -42.8 estimated
              genoa-384      384         480 1.772M 912,049   -48.5 estimated
              kunpeng920-96   96         480 68,181  63,499    -6.9 estimated
              broadwell-4s   192         480 69,574  62,187   -10.6 estimated

              before, cycles of each touched line
              line xeon-480 genoa-384 kunpeng920-96 broadwell-4s members
                 0   3.185M    1.029M        34,647       35,755 overloaded rto_count
                 2   2.410M   743,112        33,533       33,819 cpupri.pri_to_cpu[0].co..to_loop_start rto_mask

              after, cycles of each touched line
              line xeon-480 genoa-384 kunpeng920-96 broadwell-4s members
                 0   2.998M   810,821        31,276       32,569 rto_count
                 2   17,270    22,195         9,901        9,440 rto_cpu rto_loop_next rto_loop_start
                 3  185,403    78,314        20,450       19,386 cpupri.pri_to_cpu[0].count
                29      763       360           936          396 rto_mask
                30      763       360           936          396 overloaded

              members that lie elsewhere
              member         line before line after offset before offset after size after accesses change
              dlo_mask                 0          0            48           40          8        0 moved
              dlo_count                0          0            56           48          4        0 moved
              rto_push_work            1          1           120           64         32        0 moved-line
              dl_bw                    1          1            64           96         24        0 moved
              visit_gen                1          1           112          120          8        0 moved
              rto_lock                 2          2           152          128          4        0 moved
              rto_loop                 2          2           156          132          4        0 moved
              rto_cpu                  2          2           160          136          4       20 moved
              rto_loop_next            2          2           164          140          4      199 moved
              rto_loop_start           2          2           168          144          4      207 moved
              cpudl                    1          2            88          152         24        0 moved-line
              cpupri                   2          3           184          192      1,624    1,080 moved-line
              rto_mask                 2         29           176        1,856          8      572 moved-line
              pd                      28         29         1,808        1,864          8        0 moved-line
              overloaded               0         30            40        1,920          1      534 moved-line
              overutilized             0         30            41        1,921          1        0 moved-line

              worse: root_domain takes 168 more bytes: 1,816 -> 1,984 (+9.3%)
              confidence: 3,544 accesses are stated; functions: 8, CPUs: 480 (perf c2c tables of the cover
                          letter of "[PATCH v2 0/4] sched/rt: mitigate root_domain cache line contention",
                          lkml.indiana.edu/hypermail/linux/kernel/2507.2/05899.html)
              members not in the profile: refcount, rcu, span, online, dlo_mask, dlo_count, rto_push_work,
                                          dl_bw, visit_gen, rto_lock, rto_loop, cpudl and 2 more: they cost
                                          nothing wherever they are
            -- stderr
        "#]],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a golden, which is longer than code")]
fn the_same_patch_the_other_way_round_names_what_gets_worse() {
    let profile = path("profiles/root-domain-c2c.csv");
    check(
        &[
            "review",
            "root-domain-restructured",
            "linux-6.12",
            "-p",
            &profile,
            "-m",
            "xeon-480",
        ],
        expect![[r#"
            exit code 0
            -- stdout
            hitm review: root-domain-restructured -> linux-6.12
              profile: root-domain-c2c
              Types of both builds: 1; layouts that differ: 1.

            == root_domain =====================================================================================
              memory: size 1,984 -> 1,816, lines 31 -> 29, holes 5 -> 3, bytes in holes 120 -> 14, padding 62 ->
                      0

              machine  CPUs before  after change% confidence
              xeon-480  480 3.202M 5.596M   +74.7 estimated

              before, cycles of each touched line
              line xeon-480 members
                 0   2.998M rto_count
                 2   17,270 rto_cpu rto_loop_next rto_loop_start
                 3  185,403 cpupri.pri_to_cpu[0].count
                29      763 rto_mask
                30      763 overloaded

              after, cycles of each touched line
              line xeon-480 members
                 0   3.185M overloaded rto_count
                 2   2.410M cpupri.pri_to_cpu[0].count rto_cpu rto_loop_next rto_loop_start rto_mask

              members that lie elsewhere
              member         line before line after offset before offset after size after accesses change
              overloaded              30          0         1,920           40          1      534 moved-line
              overutilized            30          0         1,921           41          1        0 moved-line
              dlo_mask                 0          0            40           48          8        0 moved
              dlo_count                0          0            48           56          4        0 moved
              dl_bw                    1          1            96           64         24        0 moved
              cpudl                    2          1           152           88         24        0 moved-line
              visit_gen                1          1           120          112          8        0 moved
              rto_push_work            1          1            64          120         32        0 moved-line
              rto_lock                 2          2           128          152          4        0 moved
              rto_loop                 2          2           132          156          4        0 moved
              rto_cpu                  2          2           136          160          4       20 moved
              rto_loop_next            2          2           140          164          4      199 moved
              rto_loop_start           2          2           144          168          4      207 moved
              rto_mask                29          2         1,856          176          8      572 moved-line
              cpupri                   3          2           192          184      1,624    1,080 moved-line
              pd                      29         28         1,864        1,808          8        0 moved-line

              worse: on xeon-480 the type costs more: 3,202,389 -> 5,595,570 cycles (+74.7%)
              worse: line 0 costs more than the lines that its members were on: 2,998,952 -> 3,185,486 cycles
                     (+6.2%) on xeon-480
              worse: line 2 costs more than the lines that its members were on: 203,437 -> 2,410,084 cycles
                     (+1084.7%) on xeon-480
              worse: cpupri is on lines that cost more than before: 185,403 -> 2,410,084 cycles (+1199.9%) on
                     xeon-480
              worse: overloaded is on lines that cost more than before: 763 -> 3,185,486 cycles (+417394.9%) on
                     xeon-480
              worse: rto_count is on lines that cost more than before: 2,998,189 -> 3,185,486 cycles (+6.2%) on
                     xeon-480
              worse: rto_cpu is on lines that cost more than before: 17,270 -> 2,410,084 cycles (+13855.3%) on
                     xeon-480
              worse: rto_loop_next is on lines that cost more than before: 17,270 -> 2,410,084 cycles
                     (+13855.3%) on xeon-480
              worse: rto_loop_start is on lines that cost more than before: 17,270 -> 2,410,084 cycles
                     (+13855.3%) on xeon-480
              worse: rto_mask is on lines that cost more than before: 763 -> 2,410,084 cycles (+315769.5%) on
                     xeon-480
              worse: rto_push_work lies in 2 lines and would fit in one
              confidence: 3,544 accesses are stated; functions: 8, CPUs: 480 (perf c2c tables of the cover
                          letter of "[PATCH v2 0/4] sched/rt: mitigate root_domain cache line contention",
                          lkml.indiana.edu/hypermail/linux/kernel/2507.2/05899.html)
              members not in the profile: refcount, rcu, span, online, overutilized, dlo_mask, dlo_count, dl_bw,
                                          cpudl, visit_gen, rto_push_work, rto_lock and 2 more: they cost
                                          nothing wherever they are
            -- stderr
        "#]],
    );
}

#[test]
fn a_type_that_a_build_lacks_is_named() {
    let (old, new) = ("linux-6.12", "root-domain-restructured");
    check(
        &["review", old, new, "-t", "rq"],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: linux-6.12 and root-domain-restructured: no structure rq
        "#]],
    );
    check(
        &["review", old, new, "-t", "cpupri"],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: root-domain-restructured: no structure cpupri: only linux-6.12 has it, and a review compares two
        "#]],
    );
}

#[test]
fn files_and_machines_that_are_not_there_are_named() {
    let (old, new) = ("linux-6.12", "root-domain-restructured");
    check(
        &["review", old, "nowhere.toml"],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: no layout named "nowhere.toml": there is no such file, and the shipped ones are count-per-node+mask-per-node, cpupri-mask-per-node, cpupri-vec-line-each, linux-6.12, restructured+count-per-node, restructured+count-per-node+mask-per-node, restructured+mask-per-node, restructured+vec-line-each, restructured+vec-line-each+count-per-node, restructured+vec-line-each+count-per-node+mask-per-node, restructured+vec-line-each+mask-per-node, root-domain-restructured, rto-count-per-node, vec-line-each+count-per-node, vec-line-each+count-per-node+mask-per-node, vec-line-each+mask-per-node
        "#]],
    );
    let profile = path("profiles/root-domain-c2c.csv");
    check(
        &["review", old, new, "-p", &profile, "-m", "xeon-481"],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: --machine xeon-481: no machine model named "xeon-481": there is no such file, and the presets are broadwell-4s, cascadelake-2s, genoa-384, icelake-2s, kunpeng920-96, milan-2s, xeon-480, xeon8176-8s
        "#]],
    );
}

#[test]
fn no_difference_is_a_result() {
    check(
        &["review", "linux-6.12", "linux-6.12"],
        expect![[r#"
        exit code 0
        -- stdout
        hitm review: linux-6.12 -> linux-6.12
          Nothing differs: types of both builds: 3.
        -- stderr
    "#]],
    );
}

fn run(directory: &Path, args: &[&str]) -> String {
    let output = programs::run(directory, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).expect("the answer is UTF-8")
}

/// Two builds of a program and a recording of the first one: what is false sharing before costs
/// nothing after, and figures are exact on the machine of the recording alone.
#[test]
fn two_builds_are_reviewed_by_a_recording() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let source = programs::root().join("examples/false_sharing.c");
    let old = programs::build(directory, "old", &source, &[]);
    programs::record(directory, &old, &["20000".to_owned()]);
    programs::build(directory, "new", &source, &["PADDED".to_owned()]);

    let args = ["review", "old", "new", "-p", "old.hitm", "-o", "page.html"];
    let json = run(directory, &[&args[..], &["--format", "json"]].concat());
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["changed_count"], 1, "{json:#}");
    let of = &json["types"][0];
    assert_eq!(of["type"], "foo");
    assert_eq!(of["coverage"]["counted"], "recorded");
    let costs = of["costs"].as_array().expect("costs");
    assert_eq!(costs.len(), 4);
    let confidence: Vec<&Value> = costs.iter().map(|cost| &cost["confidence"]).collect();
    assert_eq!(confidence, ["exact", "estimated", "estimated", "estimated"]);
    for cost in costs {
        let [before, after] = ["cycles_before", "cycles_after"].map(|id| cost[id].as_f64());
        assert!(before > after, "{cost:#}");
    }
    page_has(&directory.join("page.html"), of);
}

/// The page has the figures of the JSON.
fn page_has(path: &Path, of: &Value) {
    let html = fs::read_to_string(path).expect("the page");
    let data = crate::page::data(&html);
    assert_eq!(data["kind"], "review");
    let page = &data["types"][0];
    for (table, id) in [
        ("costs", "cycles_after"),
        ("lines", "cycles"),
        ("members", "offset_after_bytes"),
        ("worse", "words"),
    ] {
        let shown = crate::page::column(&page[table]["fields"], &page[table]["rows"], id);
        let rows = of[table].as_array().expect("rows").iter();
        let printed: Vec<Value> = rows.map(|row| row[id].clone()).collect();
        assert_eq!(shown, printed, "{table} {id}");
    }
}
