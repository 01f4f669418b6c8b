//! Compiles src/bpf/*.bpf.c with clang. Without clang the crate builds without programs, and
//! reports that.

use std::path::Path;
use std::process::Command;

const PROGRAMS: [&str; 9] = [
    "arrivals",
    "probe",
    "futex",
    "holders",
    "locks",
    "neighbours",
    "peek",
    "throttle",
    "wakeups",
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_programs)");
    println!("cargo::rerun-if-changed=src/bpf");
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let sources = Path::new(&manifest).join("src/bpf");
    if Command::new("clang").arg("--version").output().is_err() {
        println!("cargo::warning=no clang: hitm is built without its BPF programs");
        return;
    }
    for program in PROGRAMS {
        compile(&sources, program, &Path::new(&out).join(program));
    }
    println!("cargo::rustc-cfg=has_programs");
}

fn compile(sources: &Path, program: &str, object: &Path) {
    let source = sources.join(program).with_extension("bpf.c");
    let status = Command::new("clang")
        // -g: the loader needs BTF. v3: jumps and sums of 32 bits, Linux 5.1 and later.
        .args([
            "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror",
        ])
        .arg(format!("-ffile-prefix-map={}=bpf", sources.display()))
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(object.with_extension("o"))
        .status()
        .expect("clang started a moment ago");
    assert!(status.success(), "cannot compile {}", source.display());
}
