//! `hitm layout advise` and `compare` as a user meets them.

use expect_test::{Expect, expect};

use crate::{check, programs};

fn path(below: &str) -> String {
    programs::root().join(below).display().to_string()
}

#[test]
fn root_domain_is_compared_line_by_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let ours = directory.path().join("ours.toml").display().to_string();
    let profile = path("profiles/root-domain-c2c.csv");
    let common = ["-i", "linux-6.12", "-p", &profile, "-m", "xeon-480"];
    let advise = [
        "layout",
        "advise",
        "root_domain",
        "--max-lines",
        "31",
        "-o",
        &ours,
    ];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_hitm"));
    let status = command
        .args(advise)
        .args(common)
        .output()
        .expect("hitm starts")
        .status;
    assert!(status.success());
    let compare = [
        "layout",
        "compare",
        "root_domain",
        "-l",
        "root-domain-restructured",
        "-l",
        &ours,
    ];
    let all: Vec<&str> = compare.into_iter().chain(common).collect();
    check(
        &all,
        expect![[r#"
        exit code 0
        -- stdout
        root_domain on xeon-480 by profile root-domain-c2c

        now: 29 lines, 166,917 cycles, 0.0 % less than now
          line      cycles       stall   transfers  cycles each  members
             0      85,353      32,165       1,229          367  overloaded rto_count
             2      81,564      26,902       1,489          308  cpupri.pri_to_cpu[0].count rto_cpu rto_loop_next rto_loop_start rto_mask

        root-domain-restructured: 31 lines, 116,957 cycles, 29.9 % less than now
          line      cycles       stall   transfers  cycles each  members
             0      66,038      31,477         833          362  rto_count
             2      13,424       8,127         200          222  rto_cpu rto_loop_next rto_loop_start
             3      35,968      14,585         908          198  cpupri.pri_to_cpu[0].count
            29         763           0           0            0  rto_mask
            30         763           0           0            0  overloaded

        ours: 29 lines, 116,194 cycles, 30.4 % less than now
          line      cycles       stall   transfers  cycles each  members
             0         763           0           0            0  overloaded rto_mask
             1      35,968      14,585         908          198  cpupri.pri_to_cpu[0].count
            26      66,038      31,477         833          362  rto_count
            27      13,424       8,127         200          222  rto_cpu rto_loop_next rto_loop_start
        -- stderr
    "#]],
    );
}

fn check_refused(rest: &[&str], expected: Expect) {
    let profile = path("profiles/root-domain-c2c.csv");
    let head = ["layout", "advise", "-i", "linux-6.12", "-p", &profile];
    let all: Vec<&str> = head.into_iter().chain(rest.iter().copied()).collect();
    check(&all, expected);
}

#[test]
fn what_cannot_be_advised_is_named() {
    check_refused(
        &["rq", "-m", "xeon-480"],
        expect![[r#"
        exit code 2
        -- stdout
        -- stderr
        hitm: error: no structure rq
    "#]],
    );
    check_refused(
        &["root_domain", "-m", "broadwell-4s"],
        expect![[r#"
        exit code 2
        -- stdout
        -- stderr
        hitm: error: the profile has CPU 479, machine broadwell-4s has 192 CPUs
    "#]],
    );
    check_refused(
        &["root_domain", "-m", "xeon-480", "--max-lines", "20"],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: no layout of root_domain takes at most 20 lines: the smallest found takes 29
        "#]],
    );
    check_refused(
        &["root_domain", "-m", "xeon-480", "--pin", "nothing@0"],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: root_domain has no member nothing
        "#]],
    );
    check_refused(
        &["root_domain", "-m", "xeon-480", "--emit", "c"],
        expect![[r#"
            exit code 2
            -- stdout
            -- stderr
            hitm: error: root_domain comes from a layout file, which has no types: expected a file with debug information
        "#]],
    );
}
