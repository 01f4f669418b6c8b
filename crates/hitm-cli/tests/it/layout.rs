//! `hitm layout` on programs that are compiled here: text, exit codes, and C that the compiler takes.

use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::{Expect, expect};
use tempfile::TempDir;

const BEFORE: &str = "\
struct counters {
	int kind;
	long hits;
	char name[60];
	unsigned ready:1, busy:3;
	void (*done)(struct counters *, long);
};
struct counters counters;
int main(void) { return counters.kind; }
";

const AFTER: &str = "\
struct counters {
	int kind;
	unsigned ready:1, busy:3;
	char name[60];
	long hits __attribute__((aligned(64)));
	void (*done)(struct counters *, long);
	int added;
};
struct counters counters;
int main(void) { return counters.kind; }
";

const RULES: &str = "\
schema = 1

[[rule]]
struct = \"counters\"
separate = [[\"kind\"], [\"hits\"]]
no_straddle = [\"name\"]
size_max_bytes = 64

[[rule]]
struct = \"counters\"
within_lines = { members = [\"kind\", \"done\"], lines = 1 }
";

/// A folder with both programs and the rules.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    compile(folder.path(), "before", BEFORE);
    compile(folder.path(), "after", AFTER);
    std::fs::write(folder.path().join("rules.toml"), RULES).expect("a file in it");
    folder
}

fn compile(folder: &Path, name: &str, source: &str) {
    let file = format!("{name}.c");
    std::fs::write(folder.join(&file), source).expect("a file in it");
    let status = Command::new("cc")
        .current_dir(folder)
        .args(["-g", "-o", name, &file])
        .status()
        .expect("cc is needed for this test");
    assert!(status.success());
}

/// Runs `hitm layout` in the folder; compares exit code, standard output and standard error.
fn check(folder: &TempDir, args: &[&str], expected: Expect) {
    let (code, out, err) = run(folder, args);
    expected.assert_eq(&format!("exit code {code}\n{out}-- stderr\n{err}"));
}

fn run(folder: &TempDir, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hitm"))
        .arg("layout")
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("hitm starts");
    let text = |bytes| String::from_utf8(bytes).expect("hitm prints UTF-8");
    let code = output.status.code().expect("no signal");
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn show_in_the_notation_of_pahole() {
    let folder = folder();
    check(
        &folder,
        &["show", "counters", "-i", "before"],
        expect![[r#""#]],
    );
    check(
        &folder,
        &[
            "show",
            "struct counters",
            "-i",
            "after",
            "--line-size",
            "128",
        ],
        expect![[r#""#]],
    );
}

#[test]
fn show_as_c_compiles_and_asserts_its_offsets() {
    let folder = folder();
    for name in ["before", "after"] {
        let (code, out, _) = run(&folder, &["show", "counters", "-i", name, "--format", "c"]);
        assert_eq!(code, 0);
        assert!(out.contains("_Static_assert(offsetof(struct counters, done)"));
        compile(
            folder.path(),
            "shown",
            &format!("{out}int main(void) {{ return 0; }}\n"),
        );
    }
}

#[test]
fn show_as_json() {
    let folder = folder();
    let (code, out, _) = run(
        &folder,
        &["show", "counters", "-i", "before", "--format", "json"],
    );
    assert_eq!(code, 0);
    let shown: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(shown["schema"], 1);
    assert_eq!(shown["declared_at"], "before.c:1");
    assert_eq!(
        (&shown["size_bytes"], &shown["line_count"]),
        (&88.into(), &2.into())
    );
    let busy = &shown["members"][4];
    assert_eq!(busy["declaration"], "unsigned int busy:3");
    assert_eq!(
        (&busy["bit_offset"], &busy["bit_size"]),
        (&609.into(), &3.into())
    );
    assert_eq!(shown["members"][0]["hole_after_bytes"], 4);
}

#[test]
fn list_with_filters() {
    let folder = folder();
    check(&folder, &["list", "-i", "before"], expect![[r#""#]]);
    check(
        &folder,
        &["list", "-i", "before", "--holes-over", "4"],
        expect![[r#""#]],
    );
    check(
        &folder,
        &["list", "-i", "after", "--straddling", "--match", "c*"],
        expect![[r#""#]],
    );
}

#[test]
fn diff_marks_what_changes_lines() {
    let folder = folder();
    check(
        &folder,
        &["diff", "before", "after", "counters"],
        expect![[r#""#]],
    );
    check(
        &folder,
        &["diff", "before", "before", "counters"],
        expect![[r#""#]],
    );
}

#[test]
fn check_is_a_gate() {
    let folder = folder();
    check(
        &folder,
        &["check", "before", "--rules", "rules.toml"],
        expect![[r#""#]],
    );
    let rule = "schema = 1\n[[rule]]\nstruct = \"counters\"\nseparate = [[\"kind\"], [\"hits\"]]\n";
    let write =
        |text: &str| std::fs::write(folder.path().join("rules.toml"), text).expect("a file");
    write(rule);
    check(
        &folder,
        &["check", "after", "--rules", "rules.toml"],
        expect![[r#""#]],
    );
    write(&rule.replace("hits", "misses"));
    check(
        &folder,
        &["check", "after", "--rules", "rules.toml"],
        expect![[r#""#]],
    );
    write(&rule.replace("counters", "meters"));
    check(
        &folder,
        &["check", "after", "--rules", "rules.toml"],
        expect![[r#""#]],
    );
    write("schema = 1\n[[rule]]\n");
    check(
        &folder,
        &["check", "after", "--rules", "rules.toml"],
        expect![[r#""#]],
    );
}

#[test]
fn what_is_no_file_of_types_is_bad_input() {
    let folder = folder();
    check(
        &folder,
        &["show", "counters", "-i", "before.c"],
        expect![[r#""#]],
    );
    check(
        &folder,
        &["show", "counters", "-i", "missing"],
        expect![[r#""#]],
    );
    check(
        &folder,
        &["show", "metres", "-i", "before"],
        expect![[r#""#]],
    );
    check(
        &folder,
        &["show", "counters", "-i", "before", "--line-size", "63"],
        expect![[r#""#]],
    );
}
