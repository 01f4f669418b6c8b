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

fn setup() -> KernelSetup {
    KernelSetup {
        recorder: PathBuf::new(),
        machine_toml: String::new(),
        options: Vec::new(),
        workload: Vec::new(),
        types: PathBuf::new(),
        type_name: "rd".to_owned(),
        timeout: Duration::from_secs(60),
    }
}

/// An answer on a tree with the structure, which must be as it was then.
fn on_tree<T>(ask: impl FnOnce(&KernelBench<'_>) -> T) -> T {
    let tree = tempfile::tempdir().unwrap();
    let folder = tree.path().join("kernel");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("rd.h"), BEFORE).unwrap();
    let beside = "#define ____cacheline_aligned_in_smp __attribute__((aligned(64)))\n";
    fs::write(folder.join("beside.h"), beside).unwrap();
    let setup = setup();
    let bench = KernelBench::new(&setup, Some(tree.path()), false).unwrap();
    let answer = ask(&bench);
    let now = fs::read_to_string(folder.join("rd.h")).unwrap();
    assert_eq!(now, BEFORE, "the tree is only read");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    answer
}

/// The refusal of a text in place of the tree's one.
fn refusal(after: &str) -> Option<String> {
    let change = diff("kernel/rd.h", BEFORE, after);
    on_tree(|bench| {
        bench
            .refusal(Path::new("kernel/rd.h"), &change, &wanted())
            .unwrap()
    })
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

#[test]
fn the_source_as_it_is_must_have_the_offsets_of_the_recorded_kernel() {
    let member =
        |name: &str, offset_bytes, size_bytes| FileMember::plain(name, offset_bytes, size_bytes);
    let recorded = |size_bytes| FileStruct {
        name: "rd".to_owned(),
        size_bytes: 8 + size_bytes,
        align_bytes: Some(4),
        members: vec![
            member("a", 0, 4),
            member("b", 4, 4),
            member("c", 8, size_bytes),
        ],
    };
    let mismatch = |recorded: &FileStruct| {
        on_tree(|bench| bench.mismatch(Path::new("kernel/rd.h"), recorded).unwrap())
    };
    assert_eq!(mismatch(&recorded(4)), None);
    assert_eq!(
        mismatch(&recorded(8)).unwrap(),
        "rd.c as compiled: found offset 8 and 4 bytes, expected offset 8 and 8 bytes"
    );
}

#[test]
fn a_change_is_written_to_a_tree_without_others() {
    let tree = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-C"]);
        let status = command.arg(tree.path()).args(args).status();
        assert!(status.unwrap().success(), "git {args:?}");
    };
    let file = tree.path().join("rd.h");
    fs::write(&file, BEFORE).unwrap();
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "a"]);
    let setup = setup();
    let bench = || KernelBench::new(&setup, Some(tree.path()), true);
    fs::write(&file, "struct rd;\n").unwrap();
    assert!(matches!(bench(), Err(FixError::NotClean { .. })));
    fs::write(&file, BEFORE).unwrap();
    let bench = bench().unwrap();
    let changed = Changed {
        file: PathBuf::from("rd.h"),
        before: BEFORE.to_owned(),
        after: BEFORE.replace("int b;", "long b;"),
    };
    bench.apply(std::slice::from_ref(&changed)).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), changed.after);
    assert!(matches!(
        bench.apply(&[changed]),
        Err(FixError::NotClean { .. })
    ));
}
