use hitm_layout::emit::difference as diff;
use hitm_layout::layout_file::FileMember;

use super::*;

/// A structure whose second member begins a line, and a third behind it.
fn wanted() -> FileStruct {
    let member = |name: &str, offset_bytes| FileMember::plain(name, offset_bytes, 4);
    FileStruct {
        name: "rd".to_owned(),
        size_bytes: 128,
        align_bytes: Some(64),
        members: vec![member("a", 0), member("b", 64), member("c", 68)],
    }
}

const BEFORE: &str = "#include \"beside.h\"\nstruct rd {\n\tint a;\n\tint b;\n\tint c;\n};\n";

/// The refusal of a text in place of the tree's one.
fn refusal(after: &str) -> Option<String> {
    let tree = tempfile::tempdir().unwrap();
    let folder = tree.path().join("kernel");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("rd.h"), BEFORE).unwrap();
    let beside = "#define ____cacheline_aligned_in_smp __attribute__((aligned(64)))\n";
    fs::write(folder.join("beside.h"), beside).unwrap();
    let setup = KernelSetup {
        recorder: PathBuf::new(),
        machine_toml: String::new(),
        options: Vec::new(),
        workload: Vec::new(),
        types: PathBuf::new(),
        type_name: "rd".to_owned(),
        timeout: Duration::from_secs(60),
    };
    let bench = KernelBench::new(&setup, Some(tree.path()), false).unwrap();
    let change = diff("kernel/rd.h", BEFORE, after);
    let refusal = bench.refusal(Path::new("kernel/rd.h"), &change, &wanted());
    let now = fs::read_to_string(folder.join("rd.h")).unwrap();
    assert_eq!(now, BEFORE, "the tree is only read");
    refusal.unwrap()
}

#[test]
fn a_compiled_structure_must_have_the_offsets_of_the_layout() {
    let aligned = BEFORE.replace("int b;", "int b ____cacheline_aligned_in_smp;");
    assert_eq!(refusal(&aligned), None);
    assert_eq!(
        refusal(&BEFORE.replace("int c;", "int c; /* not moved */")).unwrap(),
        "rd.b as compiled: found offset 4 and 4 bytes, expected offset 64 and 4 bytes"
    );
    let longer = aligned.replace("int c;", "int c;\n\tchar d[64];");
    assert_eq!(
        refusal(&longer).unwrap(),
        "rd as compiled: found 192 bytes, expected 128"
    );
    let other = aligned.replace("int c;", "int d;");
    assert_eq!(refusal(&other).unwrap(), "rd as compiled has no member c");
}

#[test]
fn what_does_not_compile_is_refused_with_its_place() {
    let why = refusal(&BEFORE.replace("int c;", "missing_t c;")).unwrap();
    assert!(
        why.starts_with("it does not compile: exit code 1: kernel/rd.h:5:")
            && why.contains("missing_t"),
        "{why}"
    );
}
