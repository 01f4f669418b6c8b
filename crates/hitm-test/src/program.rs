//! The program of this tree, for tests that run it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of `hitm`, its plugins and the libraries that it preloads, in the test's own profile.
///
/// The first call of a process builds them, so that a test of one crate never meets an old library.
///
/// # Panics
///
/// If the test does not lie in `target/PROFILE/deps`, or this tree does not compile.
pub fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let test = std::env::current_exe().expect("a test has a path");
        let folder = test.ancestors().nth(2).expect("target/PROFILE/deps/NAME");
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        build.args(["build", "--quiet", "--workspace", "--profile", profile]);
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        let status = build.status().expect("cargo starts");
        assert!(status.success(), "the program does not compile");
        folder.to_owned()
    })
}
