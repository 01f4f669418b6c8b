//! Emitted source is applied with `patch` and compiled; the compiler's own layout must be the
//! emitted one.

use hitm_test::process::Command;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use expect_test::expect;
use hitm_layout::advise::{AdviseError, Opening, Subject, SubjectMember};
use hitm_layout::emit::{
    Declaration, Emission, Source, Style, Types, c_asserts, c_struct, declarations, flattened,
    patch_array, patch_rust, patch_struct, randomized, rust_struct, semantic_patch,
};
use hitm_layout::layout_file::{FileMember, FileStruct};
use hitm_layout::{ObjectFile, StructLayout};
use tempfile::TempDir;

use crate::fixture::load;

fn declared(
    file: &mut ObjectFile,
    subject: &Subject,
    renamed: &Subject,
    layout: &StructLayout,
) -> Vec<String> {
    let names = file.source_names(layout);
    let store = file.types();
    let types = Types {
        store,
        names: &names,
    };
    declarations(subject, renamed, layout, types).unwrap()
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn run(program: &str, directory: &Path, args: &[&str], stdin: Option<&Path>) {
    let mut command = Command::new(program);
    command.current_dir(directory).args(args);
    if let Some(path) = stdin {
        command.stdin(Stdio::from(std::fs::File::open(path).unwrap()));
    }
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    assert!(status.success(), "{program} {args:?}");
}

/// An example in a directory of its own, compiled.
fn example(name: &str) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let source = format!("{name}.c");
    for file in ["common.h", &source] {
        std::fs::copy(examples().join(file), directory.path().join(file)).unwrap();
    }
    compile(directory.path(), &source);
    (directory, source)
}

fn compile(directory: &Path, source: &str) {
    run(
        "cc",
        directory,
        &[
            "-g", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", "a.so", source,
        ],
        None,
    );
}

/// Opens the structures of these types.
fn opening(types: &[String]) -> Opening<'_> {
    Opening { types, whole: &[] }
}

fn object(directory: &Path) -> ObjectFile {
    let path = directory.join("a.so").display().to_string();
    ObjectFile::parse(load(&path).unwrap(), &path).unwrap()
}

/// Every member on a line of its own, the last first.
fn spread(subject: &Subject) -> FileStruct {
    let mut members: Vec<FileMember> = subject
        .members
        .iter()
        .rev()
        .map(|member| member.file.clone())
        .collect();
    for (line, member) in (0..).zip(&mut members) {
        member.offset_bytes = line * 64;
    }
    FileStruct {
        name: subject.name.clone(),
        size_bytes: members.len() as u64 * 64,
        align_bytes: Some(64),
        members,
    }
}

fn check_layout(found: &StructLayout, wanted: &FileStruct) {
    assert_eq!(found.size, wanted.size_bytes);
    for member in &wanted.members {
        let same = found
            .members
            .iter()
            .find(|found| found.name.as_deref() == Some(&member.name));
        assert_eq!(
            same.unwrap().byte_offset(),
            member.offset_bytes,
            "{}",
            member.name
        );
    }
}

#[test]
fn patched_examples_compile_to_the_layout() {
    let cases = [
        ("false_sharing", "foo"),
        ("flag_beside_counter", "control"),
        ("heap_straddle", "worker"),
        ("lock_beside_data", "account"),
    ];
    for (name, of) in cases {
        let (directory, source) = example(name);
        let mut file = object(directory.path());
        let layout = file.struct_layout(of).unwrap();
        let subject = Subject::from_types(&layout, file.types(), &Opening::default()).unwrap();
        let wanted = spread(&subject);
        let declared = declared(&mut file, &subject, &subject, &layout);
        let emission = Emission::new(&subject, &wanted, &declared, Style::C).unwrap();
        let text = std::fs::read_to_string(directory.path().join(&source)).unwrap();
        let named = Source {
            file: &source,
            text: &text,
        };
        let told = Declaration::of(&subject, &layout, file.types());
        let diff = patch_struct(&emission, named, &told).unwrap();
        let patch = directory.path().join("a.diff");
        std::fs::write(&patch, diff).unwrap();
        run(
            "git",
            directory.path(),
            &["apply", "-p0", "--check", "a.diff"],
            None,
        );
        run("patch", directory.path(), &["-s", "-p0"], Some(&patch));
        compile(directory.path(), &source);
        check_layout(
            &object(directory.path()).struct_layout(of).unwrap(),
            &wanted,
        );

        // The same from the debug information alone.
        let whole = format!(
            "#include <stddef.h>\n#include <stdint.h>\n#include <stdatomic.h>\n{}{}struct {of} kept;\n",
            c_struct(&emission),
            c_asserts(&wanted, Style::C)
        );
        std::fs::write(directory.path().join("b.c"), whole).unwrap();
        compile(directory.path(), "b.c");
        check_layout(
            &object(directory.path()).struct_layout(of).unwrap(),
            &wanted,
        );
    }
}

#[test]
fn a_patched_array_has_a_line_for_each_element() {
    let (directory, source) = example("counter_array");
    let text = std::fs::read_to_string(directory.path().join(&source)).unwrap();
    let named = Source {
        file: &source,
        text: &text,
    };
    let diff = patch_array("counters", named, Style::C).unwrap();
    let patch = directory.path().join("a.diff");
    std::fs::write(&patch, diff).unwrap();
    run("patch", directory.path(), &["-s", "-p0"], Some(&patch));
    let patched = std::fs::read_to_string(directory.path().join(&source)).unwrap();
    let assert = "_Static_assert(sizeof(counters) == 8 * 64, \"a line each\");\n";
    std::fs::write(directory.path().join(&source), patched + assert).unwrap();
    compile(directory.path(), &source);
}

#[test]
fn emitted_rust_compiles_to_the_layout() {
    let (directory, _) = example("flag_beside_counter");
    let mut file = object(directory.path());
    let layout = file.struct_layout("control").unwrap();
    let mut subject = Subject::from_types(&layout, file.types(), &Opening::default()).unwrap();
    subject.name = String::from("Control");
    let wanted = spread(&subject);
    let types: Vec<String> = ["i32", "i32", "u64"].map(str::to_owned).to_vec();
    let emission = Emission::new(&subject, &wanted, &types, Style::C).unwrap();
    let text = rust_struct(&emission).unwrap();
    std::fs::write(directory.path().join("a.rs"), text).unwrap();
    run(
        "rustc",
        directory.path(),
        &["--edition", "2024", "--crate-type", "lib", "a.rs"],
        None,
    );
}

const GAUGE: &str = "\
pub struct Unrelated {
    pub sequence: u64,
}

/// A reading that its users share.
#[derive(Debug)]
pub struct Gauge {
    /// Read by all.
    pub enabled: u32,
    #[allow(dead_code, reason = \"kept\")]
    pub(crate) reserved: [u8; 4], // for later
    // One writer.
    sequence: std::sync::atomic::AtomicU64
}

pub static KEPT: u8 = 0;
";

#[test]
fn patched_rust_compiles_to_the_layout() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let member = |name: &str, offset: u64, size: u64| SubjectMember {
        file: FileMember::plain(name, offset, size),
        align: if name == "reserved" { 1 } else { size },
    };
    let subject = Subject {
        name: String::from("Gauge"),
        size_bytes: 16,
        align_bytes: 8,
        members: vec![
            member("enabled", 8, 4),
            member("reserved", 12, 4),
            member("sequence", 0, 8),
        ],
    };
    let wanted = spread(&subject);
    let emission = Emission::new(&subject, &wanted, &[], Style::C).unwrap();
    let source = directory.path().join("gauge.rs");
    std::fs::write(&source, GAUGE).unwrap();
    let patch = directory.path().join("a.diff");
    let named = Source {
        file: "gauge.rs",
        text: GAUGE,
    };
    std::fs::write(&patch, patch_rust(&emission, named).unwrap()).unwrap();
    run("patch", directory.path(), &["-s", "-p0"], Some(&patch));
    // The assertions that the patch adds are what checks the layout.
    let patched = std::fs::read_to_string(&source).unwrap();
    assert!(patched.contains("assert!(core::mem::offset_of!(Gauge, sequence) == 0)"));
    assert!(patched.contains("    // One writer.\n    sequence: std::sync::atomic::AtomicU64,\n"));
    let options = ["--edition", "2024", "--crate-type", "lib", "gauge.rs"];
    run("rustc", directory.path(), &options, None);

    let unnamed = Source {
        file: "a.rs",
        text: "struct Gauge(u32);\n",
    };
    let tuple = patch_rust(&emission, unnamed).unwrap_err();
    assert_eq!(
        tuple.to_string(),
        "a.rs:1: found no named fields, expected a structure with named fields"
    );
}

#[test]
fn members_of_an_opened_structure_are_the_subjects_own() {
    let directory = tempfile::tempdir().unwrap();
    let source = "struct inner { int flag; unsigned low : 3, high : 5; };\n\
                  struct outer { char c; struct inner one; struct inner two[2]; };\n\
                  struct outer outer;\n";
    std::fs::write(directory.path().join("a.c"), source).unwrap();
    compile(directory.path(), "a.c");
    let mut file = object(directory.path());
    let layout = file.struct_layout("outer").unwrap();
    let open = [String::from("struct inner")];
    let subject = Subject::from_types(&layout, file.types(), &opening(&open)).unwrap();
    let members = subject.members.iter();
    let members: Vec<_> = members
        .map(|member| (member.file.name.as_str(), member.file.bit_span()))
        .collect();
    let expected = [
        ("c", (0, 8)),
        ("one.flag", (32, 64)),
        ("one.low", (64, 67)),
        ("one.high", (67, 72)),
        // Elements of an array stay where they are in it.
        ("two", (96, 224)),
    ];
    assert_eq!(members, expected);
    let unknown = [String::from("other")];
    let unknown = Subject::from_types(&layout, file.types(), &opening(&unknown));
    assert!(matches!(unknown, Err(AdviseError::BadConstraint { .. })));
}

const NESTED: &str = "\
struct queue { long head; volatile long count; union { int a; char b; }; unsigned f : 3, g : 5; };
struct pool {
	int id;
	struct queue in;
	volatile long hits;
	struct { int x, y; } pos[2];
	union { int u; float v; };
	void (*done)(struct pool *, long);
};
long use(struct pool *pool, struct pool value);
long use(struct pool *pool, struct pool value)
{
	return pool->in.count + value.in.head + pool->in.a + pool[1].in.f + pool->pos[1].y + value.u;
}
";

/// `struct pool` with its queue opened, as C, and how members are called now.
fn opened_pool(path: &Path) -> (String, Vec<(String, String)>) {
    let mut file = object(path);
    let layout = file.struct_layout("pool").unwrap();
    let open = [String::from("queue")];
    let subject = Subject::from_types(&layout, file.types(), &opening(&open)).unwrap();
    let mut wanted = subject.to_file_struct();
    let (hits, count) = (64, 128);
    for member in &mut wanted.members {
        match member.name.as_str() {
            "hits" => member.offset_bytes = hits,
            "in.count" => member.offset_bytes = count,
            "done" => member.offset_bytes = count + 8,
            _ => {}
        }
    }
    wanted.members.sort_by_key(|member| member.bit_span());
    (wanted.size_bytes, wanted.align_bytes) = (192, Some(64));
    let flat = flattened(&subject, &wanted, &layout, file.types()).unwrap();
    let declared = declared(&mut file, &subject, &flat.subject, &layout);
    let emission = Emission::new(&flat.subject, &flat.layout, &declared, Style::C).unwrap();
    let emitted = c_struct(&emission) + &c_asserts(&flat.layout, Style::C);
    (emitted, flat.renames)
}

/// Emits a structure with an opened one inside. The compiler gives it the layout, and the old
/// source compiles with it once its uses are rewritten as the semantic patch says.
#[test]
fn an_opened_structure_is_emitted_with_its_members_renamed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("a.c"), NESTED).unwrap();
    compile(path, "a.c");
    let (emitted, renames) = opened_pool(path);
    expect![[r#"
        struct pool {
        	_Alignas(64) int id;
        	long int in_head;
        	char hitm_padding0[8];
        	union {
        		int a;
        		char b;
        	} in_anonymous24;
        	unsigned int in_f : 3;
        	unsigned int in_g : 5;
        	char hitm_padding1[8];
        	struct {
        		int x;
        		int y;
        	} pos[2];
        	union {
        		int u;
        		float v;
        	};

        	/* line 1 */
        	_Alignas(64) volatile long int hits;

        	/* line 2 */
        	_Alignas(64) volatile long int in_count;
        	void (*done)(struct pool *, long int);
        };
        _Static_assert(offsetof(struct pool, id) == 0, "pool.id moved");
        _Static_assert(offsetof(struct pool, in_head) == 8, "pool.in_head moved");
        _Static_assert(offsetof(struct pool, in_anonymous24) == 24, "pool.in_anonymous24 moved");
        _Static_assert(offsetof(struct pool, pos) == 40, "pool.pos moved");
        _Static_assert(offsetof(struct pool, hits) == 64, "pool.hits moved");
        _Static_assert(offsetof(struct pool, in_count) == 128, "pool.in_count moved");
        _Static_assert(offsetof(struct pool, done) == 136, "pool.done moved");
        _Static_assert(sizeof(struct pool) == 192, "pool has another size");
    "#]]
    .assert_eq(&emitted);
    let patch = semantic_patch("pool", &renames);
    let rewrite = |text: &str| {
        let mut text = text.to_owned();
        for (old, new) in &renames {
            for access in ["->", "."] {
                text = text.replace(&format!("{access}{old}"), &format!("{access}{new}"));
            }
            assert!(
                patch.contains(&format!("- E->{old}\n+ E->{new}\n")),
                "{patch}"
            );
        }
        text
    };
    let (_, uses) = NESTED.split_once("};\nlong use").unwrap();
    let source = format!("#include <stddef.h>\n{emitted}long use{}", rewrite(uses));
    std::fs::write(path.join("b.c"), source).unwrap();
    compile(path, "b.c");
}

const ANONYMOUS: &str = "\
#define __randomize_layout
struct stats {
	/* who counts */
	struct {
		long hits; /* one writer */
		/* read by all */
		long limit;
		union { long now; char bytes[8]; };
	};
	int id;
	struct { long cold; } __randomize_layout;
};
struct stats stats = { .hits = 1, .limit = 2, .now = 3, .id = 4, .cold = 5 };
long use(struct stats *of) { return of->hits + of->limit + of->bytes[1] + of->cold; }
";

/// The lines that a diff takes away and adds.
fn changed(diff: &str) -> String {
    let lines = diff.lines().skip(2);
    let lines = lines.filter(|line| line.starts_with(['+', '-']));
    lines.map(|line| format!("{line}\n")).collect()
}

/// An anonymous structure has no members of its own: they move like those of the structure around it, and
/// code that uses them stays as it is. A union and what the source marks stay whole.
#[test]
fn anonymous_structures_are_opened_in_their_source() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("a.c"), ANONYMOUS).unwrap();
    compile(path, "a.c");
    let mut file = object(path);
    let layout = file.struct_layout("stats").unwrap();
    let marked = randomized(ANONYMOUS, &layout, file.types());
    let found: Vec<_> = marked
        .iter()
        .map(|one| (one.bytes.clone(), &*one.members))
        .collect();
    assert_eq!(found, [(32..40, &["cold".to_owned()][..])]);
    let whole: Vec<_> = marked.iter().map(|one| one.bytes.clone()).collect();
    let opening = Opening {
        types: &[],
        whole: &whole,
    };
    let subject = Subject::from_types(&layout, file.types(), &opening).unwrap();
    let members = subject.members.iter();
    let members: Vec<_> = members
        .map(|member| (member.file.name.as_str(), member.file.offset_bytes))
        .collect();
    let expected = [
        ("hits", 0),
        ("limit", 8),
        ("(anonymous at 16)", 16),
        ("id", 24),
        ("(anonymous at 32)", 32),
    ];
    assert_eq!(members, expected);

    let wanted = spread(&subject);
    let emission = Emission::new(&subject, &wanted, &[], Style::C).unwrap();
    let told = Declaration::of(&subject, &layout, file.types());
    let named = Source {
        file: "a.c",
        text: ANONYMOUS,
    };
    let diff = patch_struct(&emission, named, &told).unwrap();
    expect![[r#"
        -	/* who counts */
        -	struct {
        -		long hits; /* one writer */
        -		/* read by all */
        -		long limit;
        -		union { long now; char bytes[8]; };
        -	};
        -	int id;
        -	struct { long cold; } __randomize_layout;
        +	_Alignas(64) struct { long cold; } __randomize_layout;
        +	_Alignas(64) int id;
        +	_Alignas(64) union { long now; char bytes[8]; };
        +	/* read by all */
        +	_Alignas(64) long limit;
        +	/* who counts */
        +	_Alignas(64) long hits; /* one writer */
    "#]]
    .assert_eq(&changed(&diff));
    let patch = path.join("a.diff");
    std::fs::write(&patch, diff).unwrap();
    run("patch", path, &["-s", "-p0"], Some(&patch));
    let mut source = std::fs::read_to_string(path.join("a.c")).unwrap();
    source = format!(
        "#include <stddef.h>\n{source}{}",
        c_asserts(&wanted, Style::C)
    );
    std::fs::write(path.join("a.c"), source).unwrap();
    compile(path, "a.c");
}

/// Source whose anonymous structures are not those of the debug information is not rearranged.
#[test]
fn another_declaration_of_anonymous_structures_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let source = "struct s {\n\tstruct { long a;\n\tlong b;\n\t};\n};\nstruct s s;\n";
    std::fs::write(path.join("a.c"), source).unwrap();
    compile(path, "a.c");
    let mut file = object(path);
    let layout = file.struct_layout("s").unwrap();
    let subject = Subject::from_types(&layout, file.types(), &Opening::default()).unwrap();
    let wanted = spread(&subject);
    let emission = Emission::new(&subject, &wanted, &[], Style::C).unwrap();
    let told = Declaration::of(&subject, &layout, file.types());
    let patched = |text| patch_struct(&emission, Source { file: "a.c", text }, &told);
    expect![[r#"
        -	struct { long a;
        -	long b;
        -	};
        +	_Alignas(64) long b;
        +	_Alignas(64) long a;
    "#]]
    .assert_eq(&changed(&patched(source).unwrap()));
    let refused = [
        "struct s {\n\tlong a;\n\tlong b;\n};\n",
        "struct s {\n\tunion { long a;\n\tlong b;\n\t};\n};\n",
        "struct s {\n\tstruct { long a;\n\tlong b;\n\t};\n\tunion { int c; };\n};\n",
    ];
    let refused = refused.map(|text| patched(text).unwrap_err().to_string());
    expect![[r#"
        a.c:1: found too few anonymous structures and unions, expected each that the debug information has
        a.c:2: found a union, expected an anonymous structure, as the debug information has
        a.c:5: found an anonymous structure or union, expected only those that the debug information has"#]].assert_eq(&refused.join("\n"));
}
