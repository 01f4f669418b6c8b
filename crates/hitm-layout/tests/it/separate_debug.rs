//! Debug information in other files, missing files, and files that are not what was recorded.

use hitm_test::process::Command;
use std::cell::RefCell;

use hitm_layout::{Bytes, Mapping, ObjectFile, Symbolizer, Unread};

use crate::fixture::{Fixture, load, mappings};

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// Compiles the C fixture and moves its debug information to `members.debug`.
fn split_fixture() -> (Fixture, String, String) {
    let flags = ["-g", "-O1", "-no-pie", "-Wl,--build-id"];
    let fixture = Fixture::compile("cc", "members.c", &flags);
    let program = fixture.program.to_str().unwrap().to_owned();
    let debug = format!("{program}.debug");
    run("objcopy", &["--only-keep-debug", &program, &debug]);
    run("strip", &[&program]);
    (fixture, program, debug)
}

fn address_of(output: &str, name: &str) -> u64 {
    let prefix = format!("member|{name}|0x");
    let line = output.lines().find_map(|line| line.strip_prefix(&prefix));
    u64::from_str_radix(line.unwrap().split('|').next().unwrap(), 16).unwrap()
}

#[test]
fn debug_link_and_build_id() {
    let (fixture, program, debug) = split_fixture();
    let address = address_of(&fixture.run(), "f.lock.owner");
    let mut by_id = ObjectFile::parse(load(&program).unwrap(), &program).unwrap();
    let hex: String = by_id
        .build_id()
        .unwrap()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let wanted = format!("/usr/lib/debug/.build-id/{}/{}.debug", &hex[..2], &hex[2..]);
    by_id.attach_debug_files(&mut |path| match path == wanted {
        true => load(&debug),
        false => Err(Unread::Missing),
    });
    let found = by_id.data_location(address, 4).unwrap();
    assert_eq!(found.to_string(), "f.lock.owner");
    assert_eq!(by_id.diagnostics(), []);

    let link = format!("--add-gnu-debuglink={debug}");
    run("objcopy", &[&link, &program]);
    let mut by_link = ObjectFile::parse(load(&program).unwrap(), &program).unwrap();
    by_link.attach_debug_files(&mut |path| load(path));
    assert_eq!(by_link.data_location(address, 4), Some(found));

    // Another program's debug file under the right name is refused.
    let other = Fixture::compile("cc", "members.c", &["-g", "-O0", "-Wl,--build-id"]);
    std::fs::copy(&other.program, &debug).unwrap();
    let mut wrong = ObjectFile::parse(load(&program).unwrap(), &program).unwrap();
    wrong.attach_debug_files(&mut |path| load(path));
    assert!(!wrong.has_debug_info());
    let message = wrong.diagnostics()[0].to_string();
    assert!(
        message.ends_with("members.debug has another build id: not used"),
        "{message}"
    );
}

#[test]
fn fewer_symbols_give_poorer_names() {
    let fixture = Fixture::compile("cc", "members.c", &["-g0", "-O0"]);
    let output = fixture.run();
    let program = fixture.program.to_str().unwrap().to_owned();
    let address = address_of(&output, "f.lock.owner");
    let name = |expected_start: &str| {
        let mut symbolizer = Symbolizer::new(mappings(&output), load);
        let name = symbolizer.data(address, 4).to_string();
        assert!(name.starts_with(expected_start), "{name}");
        let line = symbolizer.members_in(address & !63..(address & !63) + 64);
        (
            name,
            line.len(),
            symbolizer.diagnostics()[0].message.clone(),
        )
    };
    let (with_symbols, line, why) = name("f+");
    let object = address_of(&output, "f.tag");
    assert_eq!(with_symbols, format!("f+{}", address - object));
    assert!(line > 0);
    assert_eq!(
        why,
        "no debug information: names come from the symbol table"
    );
    run("strip", &[&program]);
    let (_, line, why) = name("members+0x");
    assert_eq!(line, 0);
    assert_eq!(
        why,
        "neither symbols nor debug information: addresses stay file+offset"
    );
}

#[test]
fn what_cannot_be_read_is_a_diagnostic() {
    let fixture = Fixture::compile("cc", "members.c", &["-g", "-O0", "-Wl,--build-id"]);
    let output = fixture.run();
    let address = address_of(&output, "plain");
    let program = fixture.program.to_str().unwrap();
    let of_program = |mapping: &&mut Mapping| mapping.path == program;

    let mut changed = mappings(&output);
    for mapping in changed.iter_mut().filter(of_program) {
        mapping.build_id = Some(vec![0xab; 20]);
    }
    let mut symbolizer = Symbolizer::new(changed, load);
    let name = symbolizer.data(address, 4).to_string();
    assert!(
        name.starts_with("members+0x") || name.starts_with("[anon]+0x"),
        "{name}"
    );
    let message = symbolizer.diagnostics()[0].to_string();
    assert!(message.contains("build id abababab"), "{message}");

    let asked = RefCell::new(0);
    let mut symbolizer = Symbolizer::new(mappings(&output), |_: &str| -> Result<Bytes, Unread> {
        *asked.borrow_mut() += 1;
        Err(Unread::Missing)
    });
    symbolizer.data(address, 4);
    symbolizer.code(address);
    assert_eq!(*asked.borrow(), 1, "a missing file is asked for once");
    let message = &symbolizer.diagnostics()[0].message;
    assert_eq!(message, "not found: its addresses stay file+offset");
    let refuse = |_: &str| Err(Unread::Refused("found a FIFO".into()));
    let mut symbolizer = Symbolizer::new(mappings(&output), refuse);
    symbolizer.data(address, 4);
    let message = &symbolizer.diagnostics()[0].message;
    assert_eq!(
        message,
        "not read: found a FIFO: its addresses stay file+offset"
    );

    let mut symbolizer = Symbolizer::new(mappings(&output), load);
    assert_eq!(symbolizer.data(0x10, 4).to_string(), "0x10");
    let stack = mappings(&output)
        .into_iter()
        .find(|m| m.path == "[stack]")
        .unwrap();
    assert_eq!(
        symbolizer.data(stack.start + 8, 4).to_string(),
        "[stack]+0x8"
    );
}

#[test]
fn split_dwarf_that_is_not_found_leaves_lines_and_symbols() {
    let flags = ["-g", "-O0", "-no-pie", "-gsplit-dwarf"];
    let fixture = Fixture::compile("cc", "members.c", &flags);
    let address = address_of(&fixture.run(), "f.lock.owner");
    let path = fixture.program.to_str().unwrap();
    let mut file = ObjectFile::parse(load(path).unwrap(), path).unwrap();
    let found = file.data_location(address, 4).unwrap();
    assert_eq!(found.to_string(), format!("f+{}", found.offset));
    let message = file.diagnostics()[0].message.clone();
    assert_eq!(
        message,
        "split debug information (.dwo) of 1 units was not looked for: lines only"
    );
    file.attach_debug_files(&mut |path| match path.ends_with(".dwo") {
        true => Err(Unread::Missing),
        false => load(path),
    });
    let message = file.diagnostics()[1].message.clone();
    assert!(
        message.starts_with("split debug information of 1 of 1 units not found, such as /"),
        "{message}"
    );
    // A file of that name from another compilation is refused.
    let other = Fixture::compile("cc", "members.c", &["-g", "-O2", "-gsplit-dwarf"]);
    let wrong = other.dwo_files().next().unwrap();
    file.attach_debug_files(&mut |path| {
        let is_dwo = path.ends_with(".dwo");
        load(if is_dwo {
            wrong.to_str().unwrap()
        } else {
            path
        })
    });
    let message = file.diagnostics()[2].message.clone();
    assert!(
        message.ends_with("has no unit of this program, or one of another compilation: not used"),
        "{message}"
    );
}

#[test]
fn split_dwarf_in_files_and_in_packages() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        for types in ["-fno-debug-types-section", "-fdebug-types-section"] {
            // Without optimisation: the `llvm-dwp` of LLVM 14 does not end on version 5's lists.
            let flags = ["-g", "-O0", "-gsplit-dwarf", version, types];
            let fixture = Fixture::compile("cc", "members.c", &flags);
            assert_eq!(fixture.check(), 44);
            let program = fixture.program.to_str().unwrap();
            let package = format!("{program}.dwp");
            run("llvm-dwp", &["-e", program, "-o", &package]);
            fixture
                .dwo_files()
                .for_each(|path| std::fs::remove_file(path).unwrap());
            assert_eq!(fixture.check(), 44);
        }
    }
}
