use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

/// A folder with one file `x`.
struct Bench(tempfile::TempDir);

const FORMER: &[u8] = b"what was there before";

impl Bench {
    fn new() -> Bench {
        let bench = Bench(tempfile::tempdir().unwrap());
        fs::write(bench.path("x"), FORMER).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Names in the folder, hidden ones included.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn check_busy(&self) {
        let refused = write(&self.path("x"), b"the second").unwrap_err();
        let expected = format!(
            "cannot write {}: it is being written by another process",
            self.path("x").display()
        );
        assert_eq!(refused.to_string(), expected);
    }
}

#[test]
fn a_second_writer_changes_nothing() {
    let bench = Bench::new();
    let mut first = OutputFile::create(&bench.path("x")).unwrap();
    first.write_all(b"the first").unwrap();
    bench.check_busy();
    assert_eq!(bench.read("x"), FORMER);
    assert_eq!(bench.names(), [".x.part", "x"]);
    first.commit().unwrap();
    assert_eq!(bench.read("x"), b"the first");
    write(&bench.path("x"), b"later").unwrap();
    assert_eq!(
        (bench.read("x"), bench.names()),
        (b"later".to_vec(), vec!["x".to_owned()])
    );
}

/// A writer that ends with an error half-way.
#[test]
fn an_unfinished_file_leaves_the_former_one_and_nothing_else() {
    let bench = Bench::new();
    for name in ["x", "new"] {
        let mut file = OutputFile::create(&bench.path(name)).unwrap();
        file.write_all(b"half").unwrap();
    }
    assert_eq!(
        (bench.read("x"), bench.names()),
        (FORMER.to_vec(), vec!["x".to_owned()])
    );
}

#[test]
fn what_a_killed_writer_left_is_removed() {
    let bench = Bench::new();
    for name in ["x", "new"] {
        fs::write(
            bench.path(&format!(".{name}.part")),
            "much longer than what follows",
        )
        .unwrap();
        write(&bench.path(name), b"short").unwrap();
        assert_eq!(bench.read(name), b"short");
    }
    assert_eq!(bench.names(), ["new", "x"]);
    fs::create_dir(bench.path(".x.part")).unwrap();
    let OutputError::System { source, .. } = write(&bench.path("x"), b"").unwrap_err() else {
        panic!("nobody writes it");
    };
    assert!(
        source.to_string().contains(".x.part is in the way"),
        "{source}"
    );
}

#[test]
fn links_are_followed_and_stay() {
    let bench = Bench::new();
    fs::create_dir(bench.path("sub")).unwrap();
    symlink("x", bench.path("link")).unwrap();
    symlink("../link", bench.path("sub/second")).unwrap();
    symlink("nowhere", bench.path("dangling")).unwrap();
    for (link, target) in [("sub/second", "x"), ("dangling", "nowhere")] {
        write(&bench.path(link), link.as_bytes()).unwrap();
        assert_eq!(bench.read(target), link.as_bytes());
        assert!(bench.path(link).is_symlink());
    }
    symlink("loop", bench.path("loop")).unwrap();
    write(&bench.path("loop"), b"").unwrap_err();
    assert_eq!(
        bench.names(),
        ["dangling", "link", "loop", "nowhere", "sub", "x"]
    );
}

#[test]
fn owner_and_mode_stay() {
    let bench = Bench::new();
    fs::set_permissions(bench.path("x"), Permissions::from_mode(0o604)).unwrap();
    // Only root can give a file away.
    let is_root = std::os::unix::fs::chown(bench.path("x"), Some(65534), Some(65534)).is_ok();
    let before = fs::metadata(bench.path("x")).unwrap();
    assert!(!is_root || before.uid() == 65534);
    write(&bench.path("x"), b"new").unwrap();
    let after = fs::metadata(bench.path("x")).unwrap();
    assert_ne!(before.ino(), after.ino());
    assert_eq!(
        (before.mode(), before.uid(), before.gid()),
        (after.mode(), after.uid(), after.gid())
    );
}

#[test]
fn devices_have_several_writers() {
    let _first = OutputFile::create(Path::new("/dev/null")).unwrap();
    write(Path::new("/dev/null"), b"x").unwrap();
    let full = write(Path::new("/dev/full"), b"x").unwrap_err();
    assert_eq!(full.to_string(), "cannot write /dev/full");
}

#[test]
fn a_pipe_and_an_open_file_are_written_in_place() {
    let bench = Bench::new();
    let (mut reader, pipe) = io::pipe().unwrap();
    let of = |descriptor: &dyn std::os::fd::AsRawFd| {
        PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
    };
    write(&of(&pipe), b"through").unwrap();
    drop(pipe);
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert_eq!(read, b"through");
    let mut open = File::open(bench.path("x")).unwrap();
    write(&of(&open), b"in place").unwrap();
    read.clear();
    open.read_to_end(&mut read).unwrap();
    assert_eq!(
        (read, bench.read("x")),
        (b"in place".to_vec(), b"in place".to_vec())
    );
}

#[test]
fn names_that_are_none_are_refused() {
    let bench = Bench::new();
    fs::create_dir(bench.path("folder")).unwrap();
    for name in ["folder", "folder/", "new/", "no/x", "folder/.."] {
        write(&bench.path(name), b"").unwrap_err();
    }
    write(Path::new(""), b"").unwrap_err();
    assert_eq!(bench.names(), ["folder", "x"]);
    let longest = "x".repeat(255);
    write(&bench.path(&longest), b"long").unwrap();
    assert_eq!(bench.read(&longest), b"long");
}

#[test]
fn a_recording_has_its_name_while_it_grows() {
    let bench = Bench::new();
    let mut file = GrowingFile::create(&bench.path("x")).unwrap();
    file.write_all(b"head").unwrap();
    file.check().unwrap();
    assert_eq!(bench.read("x"), FORMER);
    file.take_name().unwrap();
    assert_eq!(
        (bench.read("x"), bench.names()),
        (b"head".to_vec(), vec!["x".to_owned()])
    );
    file.write_all(b", body").unwrap();
    bench.check_busy();
    assert_eq!(bench.read("x"), b"head, body");
    file.check().unwrap();
}

#[test]
fn what_others_do_to_a_recording_is_seen() {
    let check = |act: &dyn Fn(&Path), expected: &str| {
        let bench = Bench::new();
        let mut file = GrowingFile::create(&bench.path("x")).unwrap();
        file.write_all(b"head").unwrap();
        file.take_name().unwrap();
        act(&bench.path("x"));
        let found = file.check().unwrap_err().to_string();
        assert_eq!(found, format!("another process {expected}"));
        file.write_all(b"more").unwrap();
        file.check().unwrap_err();
    };
    let other = |path: &Path| path.with_file_name("other");
    check(
        &|path| fs::remove_file(path).unwrap(),
        "deleted or moved it",
    );
    check(
        &|path| fs::rename(path, other(path)).unwrap(),
        "deleted or moved it",
    );
    check(
        &|path| {
            fs::write(other(path), "head").unwrap();
            fs::rename(other(path), path).unwrap();
        },
        "put another file in its place",
    );
    check(&|path| fs::write(path, "junk").unwrap(), "changed it");
    check(&|path| fs::write(path, "").unwrap(), "changed it");
}

#[test]
fn the_former_file_is_kept_beside() {
    let bench = Bench::new();
    for _ in 0..2 {
        keep_former(&bench.path("x"));
        write(&bench.path("x"), FORMER).unwrap();
    }
    assert_eq!(bench.read("x.old"), FORMER);
    assert_eq!(bench.names(), ["x", "x.old"]);
    // A link's target is what is replaced, and there is nothing to keep of a new file.
    symlink("x", bench.path("link")).unwrap();
    write(&bench.path("x"), b"newer").unwrap();
    keep_former(&bench.path("link"));
    keep_former(&bench.path("new"));
    assert_eq!(bench.read("x.old"), b"newer");
    assert_eq!(bench.names(), ["link", "x", "x.old"]);
}
