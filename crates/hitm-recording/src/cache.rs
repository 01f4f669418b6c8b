//! The folder in which hitm keeps what it can make again.

use std::path::PathBuf;

use hitm_files::ours;

/// The default directory of kernels and snapshots: in the user's cache directory, else the user's
/// own among the temporary files.
pub fn default_cache() -> PathBuf {
    let folder = |name| {
        let folder = std::env::var_os(name).map(PathBuf::from);
        folder.filter(|folder| folder.is_absolute())
    };
    let of_home = || Some(folder("HOME")?.join(".cache"));
    match folder("XDG_CACHE_HOME").or_else(of_home) {
        Some(base) => base.join("hitm"),
        None => std::env::temp_dir().join(format!("hitm-{}", ours::user())),
    }
}
