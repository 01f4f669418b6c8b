//! C, C++ and Rust, in the debug formats and optimisation levels that people use.

use crate::fixture::Fixture;

fn check_c(flags: &[&str]) {
    let mut all = vec!["-g", "-Wall"];
    all.extend(flags);
    assert_eq!(Fixture::compile("cc", "members.c", &all).check(), 44);
}

#[test]
fn c_dwarf_4() {
    check_c(&["-O0", "-gdwarf-4"]);
    check_c(&["-O2", "-gdwarf-4", "-gz"]);
    check_c(&["-O2", "-gdwarf-4", "-fdebug-types-section"]);
}

#[test]
fn c_dwarf_5() {
    check_c(&["-O0", "-gdwarf-5", "-no-pie"]);
    check_c(&["-O2", "-gdwarf-5", "-gz"]);
    check_c(&["-O2", "-gdwarf-5", "-fdebug-types-section", "-static"]);
}

#[test]
fn cpp() {
    for level in ["-O0", "-O2"] {
        for format in ["-gdwarf-4", "-gdwarf-5"] {
            let fixture = Fixture::compile("c++", "statics.cpp", &["-g", level, format]);
            assert_eq!(fixture.check(), 11);
        }
    }
}

#[test]
fn rust() {
    for flags in [
        ["-Copt-level=0", "-Cdebuginfo=2"],
        ["-Copt-level=2", "-Cdebuginfo=2"],
    ] {
        let mut all = vec!["--edition=2024"];
        all.extend(flags);
        let fixture = Fixture::compile("rustc", "statics.rs", &all);
        assert_eq!(fixture.check(), 9);
    }
}
