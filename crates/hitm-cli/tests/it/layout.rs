//! `hitm layout` on programs that are compiled here: text, exit codes, and C that the compiler takes.

use hitm_test::process::Command;
use std::path::Path;
use std::process::Stdio;

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
        expect![[r#"
            exit code 0
            struct counters {
            	int                        kind;                 /*     0     4 */

            	/* XXX 4 bytes hole, try to pack */

            	long int                   hits;                 /*     8     8 */
            	char                       name[60];             /*    16    60 */
            	/* --- cacheline 1 boundary (64 bytes) was 12 bytes ago --- */
            	unsigned int               ready:1;              /*    76: 0  4 */
            	unsigned int               busy:3;               /*    76: 1  4 */

            	/* XXX 28 bits hole, try to pack */

            	void                       (*done)(struct counters *, long int); /*    80     8 */

            	/* size: 88, cachelines: 2, members: 6 */
            	/* sum members: 80, holes: 1, sum holes: 4 */
            	/* sum bitfield members: 4 bits, bit holes: 1, sum bit holes: 28 bits */
            	/* last cacheline: 24 bytes */
            };
            -- stderr
        "#]],
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
        expect![[r#"
            exit code 0
            struct counters {
            	int                        kind;                 /*     0     4 */
            	unsigned int               ready:1;              /*     4: 0  4 */
            	unsigned int               busy:3;               /*     4: 1  4 */

            	/* XXX 4 bits hole, try to pack */
            	/* Bitfield combined with next fields */

            	char                       name[60];             /*     5    60 */

            	/* XXX 63 bytes hole, try to pack */

            	/* --- cacheline 1 boundary (128 bytes) --- */
            	long int                   hits __attribute__((__aligned__(64))); /*   128     8 */
            	void                       (*done)(struct counters *, long int); /*   136     8 */
            	int                        added;                /*   144     4 */

            	/* size: 192, cachelines: 2, members: 7 */
            	/* sum members: 84, holes: 1, sum holes: 63 */
            	/* sum bitfield members: 4 bits, bit holes: 1, sum bit holes: 4 bits */
            	/* padding: 44 */
            	/* forced alignments: 1, forced holes: 1, sum forced holes: 63 */
            	/* last cacheline: 64 bytes */
            };
            -- stderr
        "#]],
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
    check(
        &folder,
        &["list", "-i", "before"],
        expect![[r#"
        exit code 0
        name          bytes  lines  holes hole bytes  padding  straddling members
        counters         88      2      1          4        0  name
        -- stderr
    "#]],
    );
    check(
        &folder,
        &["list", "-i", "before", "--holes-over", "4"],
        expect![[r#"
            exit code 0
            name      bytes  lines  holes hole bytes  padding  straddling members
            -- stderr
        "#]],
    );
    check(
        &folder,
        &["list", "-i", "after", "--straddling", "--match", "c*"],
        expect![[r#"
            exit code 0
            name          bytes  lines  holes hole bytes  padding  straddling members
            counters        192      3      1         63       44  name
            -- stderr
        "#]],
    );
}

#[test]
fn diff_marks_what_changes_lines() {
    let folder = folder();
    check(
        &folder,
        &["diff", "before", "after", "counters"],
        expect![[r#"
            exit code 0
            counters: before -> after
              size 88 -> 192, lines 2 -> 3, bytes in holes 4 -> 63, padding 0 -> 44
              member  offset:size @line  offset:size @line  change
            * ready          76.0:1b @1          4.0:1b @0  moved to another line
            * busy           76.1:3b @1          4.1:3b @0  moved to another line
            . name             16:60 @0            5:60 @0  moved
            * hits               8:8 @0           128:8 @2  moved to another line
            * done              80:8 @1           136:8 @2  moved to another line
            + added                   -           144:4 @2  added
            -- stderr
        "#]],
    );
    check(
        &folder,
        &["diff", "before", "before", "counters"],
        expect![[r#"
            exit code 0
            counters: before -> before
              size 88 -> 88, lines 2 -> 2, bytes in holes 4 -> 4, padding 0 -> 0
              no member changed
            -- stderr
        "#]],
    );
}

#[test]
fn check_is_a_gate() {
    let folder = folder();
    check(
        &folder,
        &["check", "before", "--rules", "rules.toml"],
        expect![[r#"
            exit code 1
            before.c:1: struct counters: line 0 has kind and hits, expected on separate lines (rule at rules.toml:3)
            before.c:1: struct counters: size is 88 bytes, expected at most 64 (rule at rules.toml:3)
            before.c:1: struct counters: member name at 16 with 60 bytes lies on lines 0 to 1 (rule at rules.toml:3)
            before.c:1: struct counters: members kind, done lie on 2 lines (0, 1), expected at most 1 (rule at rules.toml:9)
            -- stderr
        "#]],
    );
    let rule = "schema = 1\n[[rule]]\nstruct = \"counters\"\nseparate = [[\"kind\"], [\"hits\"]]\n";
    let write =
        |text: &str| std::fs::write(folder.path().join("rules.toml"), text).expect("a file");
    write(rule);
    check(
        &folder,
        &["check", "after", "--rules", "rules.toml"],
        expect![[r#"
            exit code 0
            after: 1 rule holds
            -- stderr
        "#]],
    );
    write(&rule.replace("hits", "misses"));
    check(
        &folder,
        &["check", "after", "--rules", "rules.toml"],
        expect![[r#"
            exit code 2
            -- stderr
            hitm: error: rules.toml:2: struct counters has no member misses
        "#]],
    );
    write(&rule.replace("counters", "meters"));
    check(
        &folder,
        &["check", "after", "--rules", "rules.toml"],
        expect![[r#"
            exit code 2
            -- stderr
            hitm: error: after: no definition of type meters
        "#]],
    );
    write("schema = 1\n[[rule]]\n");
    check(
        &folder,
        &["check", "after", "--rules", "rules.toml"],
        expect![[r#"
            exit code 2
            -- stderr
            hitm: error: rules.toml:2: missing field `struct`
        "#]],
    );
}

#[test]
fn what_is_no_file_of_types_is_bad_input() {
    let folder = folder();
    check(
        &folder,
        &["show", "counters", "-i", "before.c"],
        expect![[r#"
            exit code 2
            -- stderr
            hitm: error: before.c: expected BTF or an ELF file, found 194 bytes that begin with [73, 74, 72, 75]
        "#]],
    );
    check(
        &folder,
        &["show", "counters", "-i", "missing"],
        expect![[r#"
            exit code 2
            -- stderr
            hitm: error: cannot read missing: No such file or directory (os error 2)
        "#]],
    );
    check(
        &folder,
        &["show", "metres", "-i", "before"],
        expect![[r#"
            exit code 2
            -- stderr
            hitm: error: before: no definition of type metres
        "#]],
    );
    check(
        &folder,
        &["show", "counters", "-i", "before", "--line-size", "63"],
        expect![[r#"
            exit code 2
            -- stderr
            hitm: error: invalid value '63' for '--line-size <N>': expected a power of two from 8 to 65536

            For more information, try '--help'.
        "#]],
    );
}
