//! A copy of the source tree.
//!
//! If git knows the tree and nothing in it has changed, the copy is a clone that shares git's objects, so that builds
//! that ask git for a version find one. A worktree would be known to the user's repository, where a killed process
//! would leave it. Else the files are copied: those that git would add, or all.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use hitm_files::text_file;

use super::{Changed, FixError, apply};

/// Longest source file that is read.
const SOURCE_BYTES_MAX: u64 = 16 << 20;

/// Files that are no source: recordings of hitm.
const LEFT_OUT: [&str; 2] = ["hitm.data", "hitm.data.old"];

/// Contents of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A commit, by its hash.
    Commit(String),
    /// The files as they are.
    Files,
}

/// The user's tree, which is only read.
#[derive(Debug, Clone)]
pub(super) struct Source {
    root: PathBuf,
    git: Option<Repository>,
    origin: Origin,
}

/// A repository that knows a tree.
#[derive(Debug, Clone)]
struct Repository {
    top: PathBuf,
    /// Path of the tree in it.
    inner: PathBuf,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Source, FixError> {
        let failed = |source| FixError::System {
            what: "read the folder",
            path: path.to_owned(),
            source,
        };
        let root = fs::canonicalize(path).map_err(failed)?;
        if !root.is_dir() {
            return Err(failed(ErrorKind::NotADirectory.into()));
        }
        let top = git(&root, &["rev-parse", "--show-toplevel"])
            .and_then(|top| fs::canonicalize(line(&top)).ok());
        let repository = top.and_then(|top| {
            let inner = root.strip_prefix(&top).ok()?.to_owned();
            Some(Repository { top, inner })
        });
        let commit = repository.as_ref().and_then(|Repository { top, .. }| {
            let head = git(top, &["rev-parse", "--verify", "HEAD^{commit}"])?;
            let status = git(&root, &["status", "--porcelain", "--", "."])?;
            let is_whole = !top.join(".gitmodules").exists();
            (status.is_empty() && is_whole).then(|| line(&head).to_string_lossy().into_owned())
        });
        Ok(Source {
            root,
            git: repository,
            origin: commit.map_or(Origin::Files, Origin::Commit),
        })
    }

    /// Returns how the tree differs from its commit; none where it does not, or git does not know it.
    fn difference(&self) -> Option<String> {
        self.git.as_ref()?;
        let status = git(
            &self.root,
            &["status", "--porcelain", "--untracked-files=no", "--", "."],
        )?;
        let first = status.split(|byte| *byte == b'\n').next()?;
        let text = String::from_utf8_lossy(first.get(3..)?).into_owned();
        (!text.is_empty()).then(|| format!("changes of {text}"))
    }

    /// Fails when the tree has changes that are not committed.
    pub(super) fn check_clean(&self) -> Result<(), FixError> {
        match self.difference() {
            None => Ok(()),
            Some(found) => Err(FixError::NotClean {
                path: self.root.clone(),
                found,
            }),
        }
    }

    /// Writes files to the tree, if all of them are as they were when they were copied.
    pub(super) fn apply(&self, changed: &[Changed]) -> Result<(), FixError> {
        self.check_clean()?;
        for one in changed {
            let path = self.root.join(&one.file);
            let now = text_file::read_utf8(&path, SOURCE_BYTES_MAX, "a source file")?;
            if now != one.before {
                return Err(FixError::NotClean {
                    path,
                    found: "a text that has changed meanwhile".to_owned(),
                });
            }
        }
        apply::write(&self.root, changed)
    }

    fn files(&self) -> Result<Vec<PathBuf>, FixError> {
        let known = self.git.as_ref().and_then(|_| {
            let list = [
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ];
            git(&self.root, &list)
        });
        let mut files = match known {
            Some(list) => {
                let names = list
                    .split(|byte| *byte == 0)
                    .filter(|name| !name.is_empty());
                names
                    .map(|name| PathBuf::from(OsStr::from_bytes(name)))
                    .collect()
            }
            None => walk(&self.root)?,
        };
        files.retain(|file| {
            let name = file.file_name().and_then(OsStr::to_str);
            !name.is_some_and(|name| LEFT_OUT.contains(&name))
        });
        Ok(files)
    }
}

/// A copy of the user's tree, and what was changed in it.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    source: PathBuf,
    /// Files of the source, below the root.
    files: Vec<PathBuf>,
    /// Texts of changed files as the user has them.
    before: BTreeMap<PathBuf, String>,
}

impl Tree {
    /// Copies the tree into a new folder.
    pub(super) fn copy(source: &Source, folder: &Path) -> Result<Tree, FixError> {
        let cloned = match (&source.origin, &source.git) {
            (Origin::Commit(hash), Some(repository)) => {
                clone(&repository.top, hash, folder).then(|| folder.join(&repository.inner))
            }
            _ => None,
        };
        let files = source.files()?;
        let root = match cloned {
            Some(root) => root,
            None => {
                copy_files(&source.root, &files, folder)?;
                folder.to_owned()
            }
        };
        let failed = |error| FixError::System {
            what: "read the folder",
            path: root.clone(),
            source: error,
        };
        Ok(Tree {
            root: fs::canonicalize(&root).map_err(failed)?,
            source: source.root.clone(),
            files,
            before: BTreeMap::new(),
        })
    }

    /// The user's tree itself, for reading.
    pub(super) fn of(source: &Source) -> Result<Tree, FixError> {
        Ok(Tree {
            root: source.root.clone(),
            source: source.root.clone(),
            files: source.files()?,
            before: BTreeMap::new(),
        })
    }

    /// The folder of the copy.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Files of the source, below the root.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The file below the root that debug information calls `path`: in this copy, in the user's tree, or relative to
    /// either. None for what is not of the source.
    pub fn relative(&self, path: &Path) -> Option<PathBuf> {
        let plain = without_dots(path)?;
        let below = |root: &Path| plain.strip_prefix(root).ok().map(Path::to_owned);
        // The other copy differs from this one in the name of its folder alone.
        let sibling = || {
            let (own, others) = (self.root.parent()?, plain.ancestors());
            let mut roots = others.filter(|one| one.parent() == Some(own));
            below(roots.next()?)
        };
        let found = below(&self.root)
            .or_else(|| below(&self.source))
            .or_else(sibling);
        let relative = match plain.is_absolute() {
            true => found?,
            false => plain,
        };
        self.files.contains(&relative).then_some(relative)
    }

    /// The text of a file.
    ///
    /// # Errors
    /// It cannot be read, or is no text.
    pub fn read(&self, file: &Path) -> Result<String, FixError> {
        let path = self.root.join(file);
        Ok(text_file::read_utf8(
            &path,
            SOURCE_BYTES_MAX,
            "a source file",
        )?)
    }

    /// Writes a text in place of that of a file.
    pub(super) fn write(&mut self, file: &Path, text: &str) -> Result<(), FixError> {
        if !self.before.contains_key(file) {
            let before = self.read(file)?;
            self.before.insert(file.to_owned(), before);
        }
        let path = self.root.join(file);
        fs::write(&path, text).map_err(|source| FixError::System {
            what: "write",
            path,
            source,
        })
    }

    /// Files whose text is not the user's.
    pub(super) fn changed(&self) -> Result<Vec<Changed>, FixError> {
        let mut changed = Vec::new();
        for (file, before) in &self.before {
            let after = self.read(file)?;
            if after != *before {
                changed.push(Changed {
                    file: file.clone(),
                    before: before.clone(),
                    after,
                });
            }
        }
        Ok(changed)
    }
}

/// The path without `.` and `..`; none where it leads out of where it begins.
fn without_dots(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            other => out.push(other),
        }
    }
    Some(out)
}

/// The first line of what a command printed.
fn line(output: &[u8]) -> &OsStr {
    let end = output.iter().position(|byte| *byte == b'\n');
    OsStr::from_bytes(&output[..end.unwrap_or(output.len())])
}

/// Output of git; none where there is no git, or it fails.
fn git(folder: &Path, args: &[&str]) -> Option<Vec<u8>> {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(folder)
        .args(args)
        .stdin(Stdio::null());
    // Those of a hook would lead to another repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    // Looking takes no lock in the user's repository, and writes no index.
    command.env("GIT_OPTIONAL_LOCKS", "0");
    let ran = command.output().ok()?;
    ran.status.success().then_some(ran.stdout)
}

/// Makes a clone of a commit; false where git cannot.
fn clone(top: &Path, hash: &str, folder: &Path) -> bool {
    let (Some(from), Some(to)) = (top.to_str(), folder.to_str()) else {
        return false;
    };
    let clone = [
        "clone",
        "--quiet",
        "--shared",
        "--no-checkout",
        "--",
        from,
        to,
    ];
    let is_cloned = git(Path::new("/"), &clone).is_some()
        && git(folder, &["checkout", "--quiet", "--detach", hash]).is_some();
    if !is_cloned {
        // What a clone left behind is in the way of a copy.
        let _ = fs::remove_dir_all(folder);
    }
    is_cloned
}

/// All files below a folder.
fn walk(root: &Path) -> Result<Vec<PathBuf>, FixError> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inner) = folders.pop() {
        let path = root.join(&inner);
        let failed = |source| FixError::System {
            what: "read the folder",
            path: path.clone(),
            source,
        };
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let own = inner.join(entry.file_name());
            match kind.is_dir() {
                true if entry.file_name() != ".git" => folders.push(own),
                false if kind.is_file() || kind.is_symlink() => found.push(own),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

fn copy_files(root: &Path, files: &[PathBuf], folder: &Path) -> Result<(), FixError> {
    for file in files {
        let (from, to) = (root.join(file), folder.join(file));
        let copied = to
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| {
                match fs::symlink_metadata(&from)? {
                    found if found.is_symlink() => symlink(fs::read_link(&from)?, &to),
                    found if found.is_file() => fs::copy(&from, &to).map(|_| ()),
                    // A repository inside.
                    found if found.is_dir() => copy_inner(&from, &to),
                    _ => Ok(()),
                }
            });
        match copied {
            // git knows a file that is gone.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            copied => copied.map_err(|source| FixError::System {
                what: "copy",
                path: from,
                source,
            })?,
        }
    }
    fs::create_dir_all(folder).map_err(|source| FixError::System {
        what: "make the folder",
        path: folder.to_owned(),
        source,
    })
}

fn copy_inner(from: &Path, to: &Path) -> std::io::Result<()> {
    let files = walk(from).map_err(|error| std::io::Error::other(error.to_string()))?;
    copy_files(from, &files, to).map_err(|error| std::io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("src/inner")).unwrap();
        fs::write(root.join("src/a.c"), "int a;\n").unwrap();
        fs::write(root.join("src/inner/b.h"), "int b;\n").unwrap();
        fs::write(root.join(".gitignore"), "*.o\n").unwrap();
        let run = |args: &[&str]| assert!(git(root, args).is_some(), "{args:?}");
        run(&["init", "--quiet"]);
        run(&["add", "."]);
        run(&[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "--quiet",
            "-m",
            "a",
        ]);
        folder
    }

    fn copied(source: &Source) -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::copy(source, &folder.path().join("a")).unwrap();
        (folder, tree)
    }

    #[test]
    fn a_clean_tree_is_cloned_and_a_changed_one_copied() {
        let user = repository();
        let inner = user.path().join("src");
        let source = Source::open(&inner).unwrap();
        assert!(matches!(source.origin, Origin::Commit(_)));
        let (folder, tree) = copied(&source);
        assert!(folder.path().join("a/.git").exists());
        assert_eq!(tree.files(), [Path::new("a.c"), Path::new("inner/b.h")]);
        assert_eq!(tree.read(Path::new("a.c")).unwrap(), "int a;\n");

        fs::write(inner.join("a.c"), "int a2;\n").unwrap();
        fs::write(inner.join("a.o"), "ignored").unwrap();
        fs::write(inner.join("hitm.data"), "recording").unwrap();
        let source = Source::open(&inner).unwrap();
        assert_eq!(source.origin, Origin::Files);
        assert!(
            source
                .check_clean()
                .unwrap_err()
                .to_string()
                .contains("found changes of src/a.c")
        );
        let (folder, tree) = copied(&source);
        assert_eq!(tree.read(Path::new("a.c")).unwrap(), "int a2;\n");
        let has = |name: &str| folder.path().join("a").join(name).exists();
        assert!(has("inner/b.h") && !has("a.o") && !has("hitm.data") && !has(".git"));
        let status = git(user.path(), &["worktree", "list"]).unwrap();
        assert_eq!(String::from_utf8(status).unwrap().lines().count(), 1);
    }

    #[test]
    fn debug_information_of_either_copy_and_of_the_user_names_a_file() {
        let user = repository();
        let source = Source::open(user.path()).unwrap();
        let (folder, tree) = copied(&source);
        let root = fs::canonicalize(folder.path()).unwrap();
        let user = fs::canonicalize(user.path()).unwrap();
        let known = Some(PathBuf::from("src/a.c"));
        for path in [
            root.join("a/src/a.c"),
            root.join("b/src/inner/../a.c"),
            user.join("src/./a.c"),
            PathBuf::from("src/a.c"),
        ] {
            assert_eq!(tree.relative(&path), known, "{}", path.display());
        }
        for path in ["/usr/include/stdio.h", "src/none.c", "../src/a.c", "/"] {
            assert_eq!(tree.relative(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_change_is_written_only_over_what_was_copied() {
        let user = repository();
        let file = user.path().join("src/a.c");
        let source = Source::open(user.path()).unwrap();
        let (_folder, mut tree) = copied(&source);
        tree.write(Path::new("src/a.c"), "int a; /* new */\n")
            .unwrap();
        let changed = tree.changed().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "int a;\n");
        fs::write(&file, "int other;\n").unwrap();
        assert!(source.apply(&changed).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "int other;\n");
        fs::write(&file, "int a;\n").unwrap();
        source.apply(&changed).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "int a; /* new */\n");
        tree.write(Path::new("src/a.c"), "int a;\n").unwrap();
        assert_eq!(tree.changed().unwrap(), []);
    }
}
