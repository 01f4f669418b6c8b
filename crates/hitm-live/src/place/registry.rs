//! The folders of journals on this host: a placement respects those in other folders.
//!
//! Each user's default folder is the home of a list, `folders`, of all the folders that the user has
//! chosen instead. Root also reads the lists of the users. A list's lock, `registry.lock`, is held
//! from the look at the other placements until one's own journal is there, so two of them never
//! take one task.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use hitm_files::ours::{self, user};

use super::PlaceError;
use super::journal::Journal;
use super::store::{ChangeLock, journals_in, lock_file};

/// Longest list that is read: some 10,000 folders.
const LIST_BYTES_MAX: u64 = 1 << 20;

/// Lists of folders with journals.
#[derive(Debug, Clone)]
pub struct Registry {
    home: PathBuf,
    /// Homes of other users' lists, as far as this user may read them.
    others: Vec<PathBuf>,
}

impl Registry {
    /// The list in `home`, this user's default folder, and for root those of users.
    pub fn new(home: PathBuf) -> Registry {
        let others = match user() {
            0 => homes_of_users(),
            _ => Vec::new(),
        };
        Registry { home, others }
    }

    /// The folders that this user has chosen, and the default one.
    pub fn own_folders(&self) -> Vec<PathBuf> {
        let mut folders = listed(&self.home);
        folders.insert(self.home.clone());
        folders.into_iter().collect()
    }

    /// Adds a folder to the list, and returns the lock of all.
    pub(super) fn enter(&self, folder: &Path) -> Result<ChangeLock, PlaceError> {
        let what = format!("use {} for the list of journals", self.home.display());
        ours::private_folder(&self.home, true).map_err(PlaceError::system(what))?;
        let lock = lock_file(&self.home.join("registry.lock"))?;
        let mut known = listed(&self.home);
        if folder != self.home && known.insert(folder.to_owned()) {
            // A folder that is gone has no placement.
            known.retain(|folder| folder.is_dir());
            let list = self.home.join("folders");
            write_list(&list, &known)
                .map_err(PlaceError::system(format!("write {}", list.display())))?;
        }
        Ok(lock)
    }

    /// Journals in other folders than `own`.
    pub(super) fn journals_elsewhere(&self, own: &Path) -> Vec<Journal> {
        let homes = self.others.iter().chain([&self.home]);
        let mut folders: BTreeSet<PathBuf> = homes.clone().flat_map(|home| listed(home)).collect();
        folders.extend(homes.cloned());
        let elsewhere = folders.iter().filter(|folder| folder.as_path() != own);
        elsewhere.flat_map(|folder| journals_in(folder)).collect()
    }
}

/// Default folders of users who are logged in.
fn homes_of_users() -> Vec<PathBuf> {
    let users = fs::read_dir("/run/user").into_iter().flatten().flatten();
    users.map(|user| user.path().join("hitm")).collect()
}

/// The folders of a list; none where there is no list.
fn listed(home: &Path) -> BTreeSet<PathBuf> {
    let read = || -> io::Result<String> {
        let owner = fs::symlink_metadata(home)?.uid();
        let file = ours::open_owned(
            &home.join("folders"),
            OpenOptions::new().read(true),
            &[owner],
        )?;
        let mut text = String::new();
        file.take(LIST_BYTES_MAX).read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().unwrap_or_default();
    let folders = text.lines().map(PathBuf::from);
    folders.filter(|folder| folder.is_absolute()).collect()
}

/// Writes a list beside its name first: a reader finds the old one or the new one.
fn write_list(list: &Path, folders: &BTreeSet<PathBuf>) -> io::Result<()> {
    let mut text = String::new();
    for folder in folders {
        let name = folder.to_str().filter(|name| !name.contains('\n'));
        let name = name.ok_or_else(|| {
            let what = format!("{} cannot stand in a list of lines", folder.display());
            io::Error::new(io::ErrorKind::InvalidInput, what)
        })?;
        text.push_str(name);
        text.push('\n');
    }
    let unfinished = list.with_extension("new");
    let _ = fs::remove_file(&unfinished);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file: File = options.open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Backend;
    use crate::place::cpus::CpuSet;
    use crate::place::journal::Head;
    use crate::place::store::{Store, try_lock};
    use crate::procfs::TaskId;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn registry(home: &Path, others: &[&Path]) -> Registry {
        Registry {
            home: home.to_owned(),
            others: others.iter().copied().map(Path::to_owned).collect(),
        }
    }

    /// A journal in a folder, by the name of its placement.
    fn place(folder: &Path, name: &str) {
        let tool = TaskId {
            tid: 7,
            start_ticks: 500,
        };
        let journal = Journal {
            head: Head {
                boot: "12-ab".into(),
                tool,
                since: 1,
                backend: Backend::Affinity,
                cpus: CpuSet::parse("2-3").unwrap(),
                name: name.into(),
            },
            records: Vec::new(),
        };
        let store = Store::open(folder, true).unwrap().unwrap();
        store.create(&journal).unwrap();
    }

    /// Root keeps off the tasks that other users have placed, in their default folders and in those that they chose.
    #[test]
    fn journals_of_other_users_are_seen() {
        let (own, user, chosen) = (folder(), folder(), folder());
        registry(user.path(), &[]).enter(chosen.path()).unwrap();
        place(own.path(), "own");
        place(user.path(), "of the default folder");
        place(chosen.path(), "of a chosen one");
        let root = registry(own.path(), &[user.path()]);
        let journals = root.journals_elsewhere(own.path());
        let mut names: Vec<&str> = journals.iter().map(|one| one.head.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["of a chosen one", "of the default folder"]);
    }

    /// Two placements that look at each other's journals do so one after the other.
    #[test]
    fn the_list_is_locked_until_the_journal_is_there() {
        let (home, chosen) = (folder(), folder());
        let entered = registry(home.path(), &[]).enter(chosen.path()).unwrap();
        let is_free = || {
            let file = File::open(home.path().join("registry.lock")).unwrap();
            try_lock(&file).unwrap()
        };
        assert!(!is_free());
        drop(entered);
        assert!(is_free());
    }
}
