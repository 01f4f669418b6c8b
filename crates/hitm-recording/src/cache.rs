//! The folder in which hitm keeps what it can make again.

use std::path::PathBuf;

use hitm_files::ours;

/// A folder of this user, as the XDG base directory specification finds it: by a variable, else below the home. Neither
/// counts where its path is not absolute.
pub fn user_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let folder = |name| {
        let folder = std::env::var_os(name).map(PathBuf::from);
        folder.filter(|folder| folder.is_absolute())
    };
    folder(variable).or_else(|| Some(folder("HOME")?.join(below_home)))
}

/// The default directory of kernels and snapshots: in the user's cache directory, else the user's
/// own among the temporary files.
pub fn default_cache() -> PathBuf {
    match user_folder("XDG_CACHE_HOME", ".cache") {
        Some(base) => base.join("hitm"),
        None => std::env::temp_dir().join(format!("hitm-{}", ours::user())),
    }
}
