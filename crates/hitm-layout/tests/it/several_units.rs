//! Programs of several units: what one declares and another defines, and one name for several types.

use hitm_test::process::Command;
use std::path::Path;

use hitm_layout::{Decl, ObjectFile, StructLayout};

use crate::fixture::load;

/// Compiles sources, each a unit of its own, into one program. Answers the directory and the path.
fn build(sources: &[(&str, &str)], flags: &[&str]) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in sources {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let compiled = |name: &&str| !name.ends_with(".h");
    let names = sources.iter().map(|(name, _)| *name).filter(compiled);
    let compiler = if sources[0].0.ends_with(".cpp") {
        "c++"
    } else {
        "cc"
    };
    let status = Command::new(compiler)
        .current_dir(directory.path())
        .args(["-g", "-O0", "-o", "program"])
        .args(flags)
        .args(names)
        .status();
    assert!(status.unwrap().success());
    let path = directory
        .path()
        .join("program")
        .to_str()
        .unwrap()
        .to_owned();
    (directory, path)
}

fn open(path: &str) -> ObjectFile {
    let mut file = ObjectFile::parse(load(path).unwrap(), path).unwrap();
    file.attach_debug_files(&mut load);
    file
}

const HEADER: &str = "#ifdef WIDE\n#define T long\n#else\n#define T int\n#endif\n\
                      struct common { int a, b; };\nstruct varies {\n  char c;\n  T t;\n};\n";

#[test]
fn one_name_for_several_structures() {
    let user = "#include \"h.h\"\nstruct varies NAME; struct common common_NAME;\n";
    let units = [
        (
            "main.c",
            format!(
                "#define WIDE\n{}struct own {{ long x; }} o1;\nint main(void) {{ return 0; }}\n",
                user.replace("NAME", "v0")
            ),
        ),
        (
            "second.c",
            format!(
                "{}struct own {{ char x[3]; char y; }} o2;\n",
                user.replace("NAME", "v1")
            ),
        ),
        ("third.c", user.replace("NAME", "v2")),
        ("h.h", HEADER.to_owned()),
    ];
    let sources: Vec<(&str, &str)> = units
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    for flags in [
        &["-gdwarf-4"][..],
        &["-gdwarf-5"],
        &["-gdwarf-5", "-gsplit-dwarf"],
    ] {
        let (_directory, path) = build(&sources, flags);
        let mut file = open(&path);
        // The two units with `int` outvote the one with `long`.
        let varies = file.struct_layout("struct varies").unwrap();
        assert_eq!(varies.size, 8);
        let message = file.diagnostics()[0].message.clone();
        assert_eq!(
            message,
            "struct varies has 2 different definitions: h.h:7 (8 bytes, 2 units), h.h:7 (16 bytes, \
             1 units); the first is taken, struct varies@FILE:LINE asks for another"
        );
        assert_eq!(file.struct_layout("common").unwrap().size, 8);
        assert_eq!(file.struct_layout("own@main.c:4").unwrap().size, 8);
        assert_eq!(file.struct_layout("own@second.c").unwrap().size, 4);
        let none = file.struct_layout("own@third.c").unwrap_err().to_string();
        assert_eq!(none, format!("{path}: no definition of type own@third.c"));
        let own = file.definitions_of("own");
        let listed: Vec<_> = own.iter().map(|d| (d.size, d.units)).collect();
        assert_eq!(listed, [(Some(8), 1), (Some(4), 1)]);
        let places: Vec<String> = own
            .iter()
            .map(|d| d.decl.as_ref().unwrap().to_string())
            .collect();
        assert_eq!(places, ["main.c:4", "second.c:3"]);
        assert_eq!(file.diagnostics().len(), 1);
    }
}

#[test]
fn declared_in_one_unit_and_defined_in_another() {
    // clang leaves the definition to the unit that has the class's table of virtual functions.
    let header = "namespace n { struct Far { virtual void key(); long a; int b; }; }\n";
    let main = "#include \"h.h\"\nstruct Holder { char c; n::Far far; } holder;\nint main() { return 0; }\n";
    let other = "#include \"h.h\"\nvoid n::Far::key() {}\n";
    let sources = [("main.cpp", main), ("other.cpp", other), ("h.h", header)];
    let has_clang = Command::new("clang++").arg("--version").output().is_ok();
    for flags in [
        &["-gdwarf-4"][..],
        &["-gdwarf-5"],
        &["-gdwarf-5", "-gsplit-dwarf"],
    ] {
        let (directory, path) = build(&sources, flags);
        if has_clang {
            rebuild_with_clang(directory.path(), flags);
        }
        let mut file = open(&path);
        let holder = file.struct_layout("Holder").unwrap();
        let far = &holder.members[1];
        assert_eq!((far.bit_offset, far.bit_size), (64, 192));
        let inner = file.types().layout(far.type_id).unwrap();
        let names: Vec<_> = inner
            .members
            .iter()
            .map(|m| m.name.as_deref().unwrap())
            .collect();
        assert_eq!(names[1..], ["a", "b"]);
        assert_eq!(file.diagnostics(), []);
    }
}

fn rebuild_with_clang(directory: &Path, flags: &[&str]) {
    let status = Command::new("clang++")
        .current_dir(directory)
        .args(["-g", "-O0", "-o", "program", "main.cpp", "other.cpp"])
        .args(flags)
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn parts_shared_by_dwz() {
    if Command::new("dwz").arg("--version").output().is_err() {
        return;
    }
    let user = "#include \"h.h\"\nstruct varies NAME; struct common common_NAME;\n\
                struct nested { struct common inner[4]; union { int u; char w[9]; }; } nested_NAME;\n";
    let main = format!(
        "{}int main(void) {{ return 0; }}\n",
        user.replace("NAME", "v0")
    );
    let (second, third) = (user.replace("NAME", "v1"), user.replace("NAME", "v2"));
    let sources = [
        ("main.c", main.as_str()),
        ("second.c", &second),
        ("third.c", &third),
        ("h.h", HEADER),
    ];
    for flags in [["-gdwarf-4"], ["-gdwarf-5"]] {
        let (directory, path) = build(&sources, &flags);
        let before = open(&path).struct_layout("nested").unwrap();
        std::fs::copy(&path, directory.path().join("other")).unwrap();
        let status = Command::new("dwz")
            .current_dir(directory.path())
            .args(["-m", "shared.debug", "program", "other"])
            .status();
        assert!(status.unwrap().success());
        let has_shared = directory.path().join("shared.debug").exists();
        assert!(has_shared, "dwz found nothing to share");
        let mut file = open(&path);
        let after = file.struct_layout("nested").unwrap();
        assert_eq!(
            (after.size, &after.members.len()),
            (before.size, &before.members.len())
        );
        // dwz writes the paths of files in full.
        let line = |decl: &Decl| (decl.file.rsplit('/').next().unwrap().to_owned(), decl.line);
        let places = |layout: &StructLayout| -> Vec<_> {
            let members = layout.members.iter().map(|member| {
                let line = member.decl.as_ref().map(line);
                (
                    member.name.clone(),
                    member.bit_offset,
                    member.bit_size,
                    line,
                )
            });
            members.collect()
        };
        assert_eq!(
            after.decl.as_ref().map(line),
            before.decl.as_ref().map(line)
        );
        assert_eq!(places(&after), places(&before));
        assert_eq!(file.struct_layout("varies").unwrap().size, 8);
        assert_eq!(file.diagnostics(), []);
    }
}
