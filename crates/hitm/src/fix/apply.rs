//! A patch of several files, written to the user's tree as a whole or not at all.
//!
//! Each new text is written beside its file before the first one takes its name. What still fails then undoes the
//! others. A kill between two renames leaves a part of the patch: no file system has a rename of several files.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use hitm_files::output_file::{self, OutputError, OutputFile};

use super::{Changed, FixError};

/// Writes files below `root`. After an error all of them have the texts of before.
pub(super) fn write(root: &Path, changed: &[Changed]) -> Result<(), FixError> {
    let Err((path, source)) = write_together(root, changed) else {
        return Ok(());
    };
    let path = root.join(path);
    match restore(root, changed) {
        None => Err(FixError::System {
            what: "write",
            path,
            source,
        }),
        Some(changed) => Err(FixError::Partly {
            path,
            changed: root.join(changed),
            source,
        }),
    }
}

fn write_together<'c>(root: &Path, changed: &'c [Changed]) -> Result<(), (&'c Path, io::Error)> {
    let mut files = Vec::new();
    for one in changed {
        let failed = |source| (one.file.as_path(), source);
        let file = OutputFile::create(&root.join(&one.file));
        let mut file = file.map_err(|error| failed(reason(error)))?;
        file.write_all(one.after.as_bytes()).map_err(failed)?;
        files.push((one, file));
    }
    for (one, file) in files {
        let committed = file.commit();
        committed.map_err(|error| (one.file.as_path(), reason(error)))?;
    }
    Ok(())
}

/// The system's answer, without the file's name.
fn reason(error: OutputError) -> io::Error {
    match error {
        OutputError::System { source, .. } => source,
        error => error.into(),
    }
}

/// Gives files their texts of before; a file with which that fails.
fn restore<'c>(root: &Path, changed: &'c [Changed]) -> Option<&'c Path> {
    let mut left = None;
    for one in changed {
        let path = root.join(&one.file);
        let is_as_before = || fs::read(&path).is_ok_and(|now| now == one.before.as_bytes());
        if !is_as_before() && output_file::write(&path, one.before.as_bytes()).is_err() {
            left = Some(one.file.as_path());
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn tree() -> (tempfile::TempDir, Vec<Changed>) {
        let folder = tempfile::tempdir().unwrap();
        let changed = ["a.c", "b.c", "c.c"].map(|name| {
            let before = format!("int {name};\n");
            fs::write(folder.path().join(name), &before).unwrap();
            Changed {
                file: PathBuf::from(name),
                before,
                after: format!("long {name};\n"),
            }
        });
        (folder, changed.to_vec())
    }

    fn texts(root: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(root)
            .unwrap()
            .map(|one| one.unwrap())
            .collect();
        names.sort_by_key(fs::DirEntry::file_name);
        let files = names.iter().filter(|one| one.path().is_file());
        files
            .map(|one| fs::read_to_string(one.path()).unwrap())
            .collect()
    }

    #[test]
    fn all_files_are_written() {
        let (folder, changed) = tree();
        write(folder.path(), &changed).unwrap();
        let expected = ["long a.c;\n", "long b.c;\n", "long c.c;\n"];
        assert_eq!(texts(folder.path()), expected);
    }

    #[test]
    fn one_that_cannot_be_written_leaves_all_as_before() {
        let (folder, changed) = tree();
        let before = texts(folder.path());
        // Nothing can be written beside it.
        fs::create_dir(folder.path().join(".b.c.part")).unwrap();
        let error = write(folder.path(), &changed).unwrap_err();
        assert!(matches!(&error, FixError::System { path, .. } if path.ends_with("b.c")));
        assert_eq!(texts(folder.path()), before);
    }

    #[test]
    fn what_has_its_name_already_is_undone() {
        let (folder, changed) = tree();
        fs::write(folder.path().join("a.c"), &changed[0].after).unwrap();
        assert_eq!(restore(folder.path(), &changed), None);
        assert_eq!(
            texts(folder.path()),
            ["int a.c;\n", "int b.c;\n", "int c.c;\n"]
        );
        fs::write(folder.path().join("c.c"), &changed[2].after).unwrap();
        fs::create_dir(folder.path().join(".c.c.part")).unwrap();
        assert_eq!(restore(folder.path(), &changed), Some(Path::new("c.c")));
    }
}
