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
              xeon-480       480           - 77.25M  51.96M   -32.7 estimated
              genoa-384      384         480 1.772M 912,049   -48.5 estimated
              kunpeng920-96   96         480 68,181  63,499    -6.9 estimated
              broadwell-4s   192         480 69,574  62,187   -10.6 estimated

              before, cycles of each touched line as the model estimates them
              line xeon-480 genoa-384 kunpeng920-96 broadwell-4s members
                 0   36.53M    1.029M        34,647       35,755 overloaded rto_count
                 2   40.73M   743,112        33,533       33,819 cpupri.pri_to_cpu[0].co..to_loop_start rto_mask

              after, cycles of each touched line as the model estimates them
              line xeon-480 genoa-384 kunpeng920-96 broadwell-4s members
                 0   26.96M   810,821        31,276       32,569 rto_count
                 2   2.357M    22,195         9,901        9,440 rto_cpu rto_loop_next rto_loop_start
                 3   22.64M    78,314        20,450       19,386 cpupri.pri_to_cpu[0].count
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
              xeon-480  480 51.96M 77.25M   +48.7 estimated

              before, cycles of each touched line as the model estimates them
              line xeon-480 members
                 0   26.96M rto_count
                 2   2.357M rto_cpu rto_loop_next rto_loop_start
                 3   22.64M cpupri.pri_to_cpu[0].count
                29      763 rto_mask
                30      763 overloaded

              after, cycles of each touched line as the model estimates them
              line xeon-480 members
                 0   36.53M overloaded rto_count
                 2   40.73M cpupri.pri_to_cpu[0].count rto_cpu rto_loop_next rto_loop_start rto_mask

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

              worse: on xeon-480 the type costs more: 51,960,445 -> 77,254,851 cycles (+48.7%)
              worse: line 0 costs more than the lines that its members were on: 26,960,595 -> 36,528,016 cycles
                     (+35.5%) on xeon-480
              worse: line 2 costs more than the lines that its members were on: 24,999,850 -> 40,726,836 cycles
                     (+62.9%) on xeon-480
              worse: cpupri is on lines that cost more than before: 22,641,647 -> 40,726,836 cycles (+79.9%) on
                     xeon-480
              worse: overloaded is on lines that cost more than before: 763 -> 36,528,016 cycles (+4787320.2%)
                     on xeon-480
              worse: rto_count is on lines that cost more than before: 26,959,832 -> 36,528,016 cycles (+35.5%)
                     on xeon-480
              worse: rto_cpu is on lines that cost more than before: 2,357,440 -> 40,726,836 cycles (+1627.6%)
                     on xeon-480
              worse: rto_loop_next is on lines that cost more than before: 2,357,440 -> 40,726,836 cycles
                     (+1627.6%) on xeon-480
              worse: rto_loop_start is on lines that cost more than before: 2,357,440 -> 40,726,836 cycles
                     (+1627.6%) on xeon-480
              worse: rto_mask is on lines that cost more than before: 763 -> 40,726,836 cycles (+5337624.2%) on
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
/// nothing after, by replays on each machine.
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
    assert_eq!(confidence, ["replayed"; 4]);
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

/// A count that all threads change beside members that they read; the count has another name, type or
/// place in other builds.
const SESSIONS: &str = r#"
#include <pthread.h>
#ifndef COUNT
#define COUNT refs
#endif
#ifndef MORE
#define MORE
#endif
#ifndef TYPE
#define TYPE long
#endif
#ifndef DEEP
#define DEEP gets
#endif
#ifndef WIDE
#define WIDE
#endif
#ifndef MIDDLE
#define MIDDLE
#endif
struct usage { long puts; long DEEP; WIDE };
struct session { long id[2]; void *peer; TYPE COUNT; MORE };
struct table { long size; MIDDLE struct usage usage[2]; };
struct session session;
struct table table = { .size = 2 };
static void *work(void *unused)
{
	long sum = 0;
	(void)unused;
	for (int i = 0; i < 2000; i++) {
		__atomic_fetch_add((long *)&session.COUNT, 1, __ATOMIC_RELAXED);
		sum += __atomic_load_n(&session.id[1], __ATOMIC_RELAXED);
		__atomic_fetch_add(&table.usage[1].DEEP, 1, __ATOMIC_RELAXED);
		sum += __atomic_load_n(&table.size, __ATOMIC_RELAXED);
	}
	return (void *)sum;
}
int main(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, work, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	return 0;
}
"#;

/// The program, its recording, and builds of it with these defines.
fn sessions(directory: &Path, builds: &[(&str, &[&str])]) {
    let source = directory.join("sessions.c");
    fs::write(&source, SESSIONS).expect("a temporary file");
    let old = programs::build(directory, "old", &source, &[]);
    programs::record(directory, &old, &[]);
    for (name, defines) in builds {
        let defines: Vec<String> = defines.iter().map(|define| (*define).to_owned()).collect();
        programs::build(directory, name, &source, &defines);
    }
}

/// Exit code, standard output as JSON, and standard error of a review of `old` and another build.
fn reviewed(directory: &Path, args: &[&str]) -> (Option<i32>, Value, String) {
    let all = [
        &["review", "old"],
        args,
        &["-p", "old.hitm", "--format", "json"],
    ]
    .concat();
    let output = programs::run(directory, &all);
    let json = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let error = String::from_utf8(output.stderr).expect("messages are UTF-8");
    (output.status.code(), json, error)
}

/// The review of one type.
fn of_type<'j>(review: &'j Value, name: &str) -> &'j Value {
    let types = review["types"].as_array().expect("types");
    let found = types.iter().find(|of| of["type"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {review:#}"))
}

fn has_no_change(of: &Value) {
    let costs = of["costs"].as_array().expect("costs");
    assert_eq!(costs.len(), 4, "{of:#}");
    for cost in costs {
        let change = cost["cycles_change"].as_f64().expect("a change");
        assert!(change.abs() < 0.001, "{of:#}");
        assert!(cost["cycles_before"].as_f64() > Some(1000.0), "{of:#}");
    }
}

/// The name alone differs, of a member and of one in a nested structure: nothing costs more or less.
#[test]
fn renamed_members_of_the_same_layout_change_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let names = ["COUNT=holders", "DEEP=takes", "MIDDLE=long spare;"];
    sessions(directory, &[("new", &names)]);
    let (code, review, error) = reviewed(directory, &["new"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let session = of_type(&review, "session");
    has_no_change(session);
    let renamed = &session["renamed"][0];
    assert_eq!(
        renamed["words"],
        "refs is holders now (same offset, size, type and neighbours)"
    );
    let table = of_type(&review, "table");
    has_no_change(table);
    assert_eq!(table["renamed"][0]["member"], "usage.gets");
    assert_eq!(table["renamed"][0]["new_member"], "usage.takes");
}

/// A touched member without a partner: no figure for its type, the candidates, and exit code 2. The other
/// types keep theirs, and `--renamed` answers.
#[test]
fn a_touched_member_without_a_place_has_no_figures() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let wide = ["COUNT=holders", "MORE=long last;", "MIDDLE=long spare;"];
    let deep = ["DEEP=takes", "WIDE=long misses;"];
    sessions(directory, &[("new", &wide), ("deep", &deep)]);
    let (code, review, error) = reviewed(directory, &["new"]);
    assert_eq!(code, Some(2), "{error}");
    let session = of_type(&review, "session");
    assert_eq!(session["costs"], serde_json::json!([]));
    assert_eq!(
        session["unpriced"],
        "the profile touches refs, which new lacks"
    );
    let unmatched = &session["unmatched"][0];
    assert!(
        unmatched["access_count"].as_u64() > Some(7_900),
        "{unmatched:#}"
    );
    assert_eq!(
        unmatched["candidates"],
        serde_json::json!([
            "holders (offset 24, 8 B, long int; same offset, size and type)",
            "last (offset 32, 8 B, long int; same size and type)",
        ])
    );
    let words = unmatched["words"].as_str().expect("words");
    assert!(
        words.starts_with("refs (offset 24, 8 B, long int; accesses: "),
        "{words}"
    );
    assert_eq!(
        error,
        format!(
            "hitm: error: no figures where new lacks touched members: session: {words}: expected \
             --renamed OLD=NEW for each, or --renamed OLD= for one that is gone\n"
        )
    );
    assert_eq!(
        of_type(&review, "table")["costs"].as_array().map(Vec::len),
        Some(4)
    );

    let (code, review, error) = reviewed(directory, &["new", "--renamed", "session.refs=holders"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    has_no_change(of_type(&review, "session"));
    let (code, review, error) = reviewed(directory, &["new", "--renamed", "refs="]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let session = of_type(&review, "session");
    let lacking = &session["coverage"]["lacking_after"];
    let lacking: Vec<&str> = lacking
        .as_array()
        .expect("members")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        matches!(lacking[..], [refs] if refs.starts_with("refs (")),
        "{lacking:?}"
    );
    assert_eq!(session["renamed"][0]["new_member"], Value::Null);
    members_inside_are_named(directory);
}

/// A nested structure lacks a touched member: the candidates are its own members.
fn members_inside_are_named(directory: &Path) {
    let (code, review, _) = reviewed(directory, &["deep", "-t", "table"]);
    assert_eq!(code, Some(2));
    let unmatched = &of_type(&review, "table")["unmatched"][0];
    assert_eq!(unmatched["member"], "usage.gets");
    let likest = "usage.takes (offset 8, 8 B, long int; same offset, size and type)";
    assert_eq!(unmatched["candidates"][0], likest);
    let renamed = ["deep", "-t", "table", "--renamed", "usage.gets=usage.takes"];
    let (code, review, error) = reviewed(directory, &renamed);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let costs = of_type(&review, "table")["costs"].as_array().map(Vec::len);
    assert_eq!(costs, Some(4));
}

/// A member that is an atomic type now, with another member inside, stays where it is.
#[test]
fn a_member_of_another_type_keeps_its_place() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    let retyped = [
        "TYPE=struct { struct { long v; } inner; }",
        "MORE=long last;",
    ];
    sessions(directory, &[("new", &retyped)]);
    let (code, review, error) = reviewed(directory, &["new", "-t", "session"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    has_no_change(of_type(&review, "session"));
    // The other way round a path ends at the member that has none inside.
    let back = ["review", "new", "old", "-t", "session", "-p", "old.hitm"];
    let output = programs::run(directory, &back);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn wrong_renames_are_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    sessions(directory, &[("new", &["COUNT=holders", "MORE=long size;"])]);
    for (renamed, message) in [
        (
            "refs=none",
            "--renamed refs=none: new: session has no member none",
        ),
        (
            "none=holders",
            "--renamed none=holders: old: no reviewed type has a member none",
        ),
        ("id=", "--renamed id=: new: session has a member id"),
    ] {
        let (code, _, error) = reviewed(directory, &["new", "--renamed", renamed]);
        assert_eq!(
            (code, error),
            (Some(2), format!("hitm: error: {message}\n"))
        );
    }
    let twice = ["new", "--renamed", "refs=holders", "--renamed", "refs=size"];
    let (code, _, error) = reviewed(directory, &twice);
    let message =
        "--renamed refs=size: expected each member once, found --renamed refs=holders too";
    assert_eq!(
        (code, error),
        (Some(2), format!("hitm: error: {message}\n"))
    );
}

/// Two threads add to a member of an anonymous structure, two look at others.
const POT: &str = "
#include <pthread.h>
struct pot { struct { long adds; long top; long spare; }; union { long now; int part; }; };
_Alignas(64) struct pot pot = { .top = 5 };
static void *add(void *unused)
{
	for (int i = 0; i < 5000; i++)
		__atomic_fetch_add(&pot.adds, 1, __ATOMIC_RELAXED);
	return unused;
}
static void *look(void *unused)
{
	long sum = 0;
	(void)unused;
	for (int i = 0; i < 5000; i++)
		sum += __atomic_load_n(&pot.top, __ATOMIC_RELAXED) + __atomic_load_n(&pot.now, __ATOMIC_RELAXED);
	return (void *)sum;
}
int main(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, i < 2 ? add : look, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	return 0;
}
";

/// A layout by hand: the sum apart from what is read.
const APART: &str = r#"
schema = 1
name = "apart"
description = "the sum apart from what is read"
source = "by hand"
[[struct]]
name = "pot"
size_bytes = 128
align_bytes = 64
members = [
  { name = "adds", offset_bytes = 0, size_bytes = 8 },
  { name = "top", offset_bytes = 64, size_bytes = 8 },
  { name = "spare", offset_bytes = 72, size_bytes = 8 },
  { name = "now", offset_bytes = 80, size_bytes = 8 },
]
"#;

/// Members of an anonymous structure and of an anonymous union, against a layout file that names them.
#[test]
fn anonymous_structures_match_the_members_of_a_layout_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    fs::write(directory.join("old.c"), POT).expect("a temporary file");
    fs::write(directory.join("apart.toml"), APART).expect("a temporary file");
    let old = programs::build(directory, "old", &directory.join("old.c"), &[]);
    programs::record(directory, &old, &[]);

    let args = [
        "layout", "advise", "pot", "-i", "old", "-p", "old.hitm", "-o", "own.toml",
    ];
    let advice = run(directory, &args);
    let note = "note: the members of an anonymous union at byte 24 stay together: now, part\n";
    assert!(advice.contains(note), "{advice}");
    for layout in ["apart.toml", "own.toml"] {
        let (code, review, error) = reviewed(directory, &[layout]);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{layout}");
        let pot = of_type(&review, "pot");
        assert_eq!(
            pot["coverage"]["lacking_after"],
            serde_json::json!([]),
            "{layout}"
        );
        let cost = &pot["costs"][0];
        let change = cost["cycles_change"].as_f64().expect("a change");
        assert!((-0.9..-0.01).contains(&change), "{layout}: {cost:#}");
        let members = pot["members"].as_array().expect("members").iter();
        let moved = members.filter(|member| member["change"] == "moved-line");
        assert!(moved.count() >= 2, "{layout}: {pot:#}");
        let replayed = ["whatif", "-i", "old.hitm", "--layout", layout];
        assert!(run(directory, &replayed).contains("layout: "), "{layout}");
    }
}
