//! `hitm layout` on raw BTF, as in /sys/kernel/btf, of either byte order: every command.

use hitm_test::process::Command;
use std::path::Path;
use std::process::Stdio;

use expect_test::{Expect, expect};
use hitm_test::btf::Assembler;

/// `struct counters { int kind; long hits; char name[60]; struct rate rate; }`, `hits` at its bit
/// offset.
fn counters(big_endian: bool, hits: u32) -> Vec<u8> {
    let mut btf = Assembler::new(big_endian);
    let int = btf.int("int", 4);
    let long = btf.int("long int", 8);
    let char = btf.int("char", 1);
    let name = btf.array(char, 60);
    let rate = btf.structure("rate", 16, &[("events", long, 0), ("since", long, 64)]);
    let size = hits / 8 + 88;
    let members = [
        ("kind", int, 0),
        ("hits", long, hits),
        ("name", name, hits + 64),
        ("rate", rate, hits + 64 + 512),
    ];
    btf.structure("counters", size, &members);
    btf.finish()
}

const QUESTION: [&str; 7] = [
    "counters",
    "-i",
    "before.btf",
    "-p",
    "profile.csv",
    "-m",
    "xeon-480",
];

const RULES: &str = "\
schema = 1

[[rule]]
struct = \"counters\"
separate = [[\"kind\"], [\"hits\"]]
";

const PROFILE: &str = "\
# schema: 1
# name: two sides
# source: made up
# period_cycles: 1000000
member,function,loads,stores,rmws,cpus
kind,ask,30000,0,0,1-3
hits,count,0,10000,0,0
rate.events,ask,100,0,0,1-3
";

fn folder(big_endian: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).expect("a file in it");
    };
    write("before.btf", &counters(big_endian, 64));
    write("after.btf", &counters(big_endian, 512));
    write("rules.toml", RULES.as_bytes());
    write("profile.csv", PROFILE.as_bytes());
    folder
}

fn run(folder: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_hitm"))
        .arg("layout")
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("hitm starts");
    let text = |bytes| String::from_utf8(bytes).expect("hitm prints UTF-8");
    let code = output.status.code().expect("no signal");
    format!(
        "exit code {code}\n{}-- stderr\n{}",
        text(output.stdout),
        text(output.stderr)
    )
}

/// Both byte orders give the same.
fn check(args: &[&str], expected: Expect) {
    let found = run(folder(false).path(), args);
    expected.assert_eq(&found);
    assert_eq!(found, run(folder(true).path(), args));
}

#[test]
fn layouts_are_read_from_raw_btf() {
    check(
        &["show", "counters", "-i", "before.btf"],
        expect![[r#"
        exit code 0
        struct counters {
        	int                        kind;                 /*     0     4 */

        	/* XXX 4 bytes hole, try to pack */

        	long int                   hits;                 /*     8     8 */
        	char                       name[60];             /*    16    60 */

        	/* XXX 4 bytes hole, try to pack */

        	/* --- cacheline 1 boundary (64 bytes) was 16 bytes ago --- */
        	struct rate                rate;                 /*    80    16 */

        	/* size: 96, cachelines: 2, members: 4 */
        	/* sum members: 88, holes: 2, sum holes: 8 */
        	/* last cacheline: 32 bytes */
        };
        -- stderr
    "#]],
    );
    check(
        &["list", "-i", "before.btf"],
        expect![[r#"
        exit code 0
        name          bytes  lines  holes hole bytes  padding  straddling members
        counters         96      2      2          8        0  name
        rate             16      1      0          0        0
        -- stderr
    "#]],
    );
    check(
        &["diff", "before.btf", "after.btf", "counters"],
        expect![[r#"
            exit code 0
            counters: before.btf -> after.btf
              size 96 -> 152, lines 2 -> 3, bytes in holes 8 -> 64, padding 0 -> 0
              member  offset:size @line  offset:size @line  change
            * hits               8:8 @0            64:8 @1  moved to another line
            * name             16:60 @0           72:60 @1  moved to another line
            * rate             80:16 @1          136:16 @2  moved to another line
            -- stderr
        "#]],
    );
    check(
        &["check", "before.btf", "--rules", "rules.toml"],
        expect![[r#"
            exit code 1
            before.btf: struct counters: line 0 has kind and hits, expected on separate lines (rule at rules.toml:3)
            -- stderr
        "#]],
    );
    check(
        &["check", "after.btf", "--rules", "rules.toml"],
        expect![[r#"
            exit code 0
            after.btf: 1 rule holds
            -- stderr
        "#]],
    );
}

#[test]
fn advice_reads_raw_btf() {
    check(
        &[&["advise"], &QUESTION[..]].concat(),
        expect![[r#"
            exit code 0
            counters on xeon-480 by profile two sides: 2 lines, an estimated 339,646 cycles now, 8.5 % of the 4,000,000 cycles of work
            note: estimated by a model of independent accesses; docs/models/advisor.md says how far off it is
              line      cycles       stall   transfers  cycles each  members
                 0     339,328           0       7,045          385  hits kind
                 1         318           0           0            0  rate.events

            1. 3 lines, each written member on a line of its own: an estimated 424 cycles, 99.9 % less; none with as many hot lines is cheaper
              line      cycles       stall   transfers  cycles each  members
                 0         318           0           0            0  kind rate.events
                 1         106           0           0            0  hits
              - kind gets away from hits: kind is only read, 30,000 times by 3 cores, and hits is written 10,000 times by 1 core; in one line they cost an estimated 338,904 cycles more than apart.
              - rate joins kind: rate is only read, 100 times by 3 cores, and kind is only read, 30,000 times by 3 cores; apart they cost an estimated 318 cycles more.
              - name: nothing in the profile touches them: they fill what the others leave.
            -- stderr
        "#]],
    );
}

#[test]
fn source_is_written_from_raw_btf() {
    check(
        &[
            &["advise"],
            &QUESTION[..],
            &["--open", "rate", "--emit", "c"],
        ]
        .concat(),
        expect![[r#"
            exit code 0
            struct counters {
            	_Alignas(64) long int rate_events;
            	int kind;
            	long int rate_since;

            	/* line 1 */
            	_Alignas(64) long int hits;

            	/* line 2 */
            	_Alignas(64) char name[60];
            };

            _Static_assert(offsetof(struct counters, rate_events) == 0, "counters.rate_events moved");
            _Static_assert(offsetof(struct counters, kind) == 8, "counters.kind moved");
            _Static_assert(offsetof(struct counters, rate_since) == 16, "counters.rate_since moved");
            _Static_assert(offsetof(struct counters, hits) == 64, "counters.hits moved");
            _Static_assert(offsetof(struct counters, name) == 128, "counters.name moved");
            _Static_assert(sizeof(struct counters) == 192, "counters has another size");

            /* Members of opened structures have other names now. spatch --sp-file FILE --in-place DIR, of
            Coccinelle, rewrites their uses with this; the compiler finds what takes a whole opened
            structure.

            @disable ptr_to_array@
            struct counters *E;
            @@
            (
            - E->rate.events
            + E->rate_events
            |
            - E->rate.since
            + E->rate_since
            )

            @@
            struct counters E;
            @@
            (
            - E.rate.events
            + E.rate_events
            |
            - E.rate.since
            + E.rate_since
            )
            */
            -- stderr
        "#]],
    );
    let compare = [
        "compare",
        "counters",
        "-i",
        "before.btf",
        "-p",
        "profile.csv",
    ];
    let rest = ["-m", "xeon-480", "-l", "linux-6.12"];
    check(
        &[&compare[..], &rest].concat(),
        expect![[r#"
        exit code 2
        -- stderr
        hitm: error: the layout linux-6.12 has no structure counters
    "#]],
    );
}
