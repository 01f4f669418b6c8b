//! Mistakes in walks of one's own, which are found before a machine boots.

use std::fs;
use std::path::Path;

use hitm_test::process::Command;

use crate::programs::hitm;

/// Exit code and errors of `hitm vm caches` with these options, for a user with these walks.
fn caches(folder: &Path, of_user: &str, options: &[&str]) -> (Option<i32>, String) {
    let config = folder.join("config");
    fs::create_dir_all(config.join("hitm")).expect("a folder");
    fs::write(config.join("hitm/walks.toml"), of_user).expect("a file");
    let mut command = Command::new(hitm());
    command.args(["vm", "caches"]).args(options);
    command.current_dir(folder).env("XDG_CONFIG_HOME", config);
    let done = command.output().expect("hitm runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    (done.status.code(), said)
}

#[test]
fn mistakes_are_named_with_their_file_and_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let said = |of_user: &str, options: &[&str], expected: &str| {
        let (code, said) = caches(folder, of_user, options);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    };
    let wrong = "schema = 1\n\n[[walk]]\nname = 'mine'\nobjects = 'mine->(fish)'\n";
    fs::write(folder.join("own.toml"), wrong).expect("a file");
    let options = ["--walks", "own.toml"];
    said(
        "schema = 1\n",
        &options,
        "own.toml:5: found '(fish)', expected struct NAME",
    );
    said(
        "schema = 1\n\n[slab]\nmine = 4\n",
        &[],
        "hitm/walks.toml:4: invalid type: integer `4`, expected a string",
    );
    said(
        "schema = 1\n",
        &["--walks", "none.toml"],
        "cannot read none.toml",
    );
}
