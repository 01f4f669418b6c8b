//! Advice on debug information that is missing: the packages that have it, by Debian's package manager, or servers.

use std::collections::BTreeSet;
use std::env;
use std::io::{Read as _, Seek as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use hitm_files::temporary;

use crate::recording::end_in_time;

/// Time in which the package manager must answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Files that it is asked about.
const FILES_MAX: usize = 16;
/// Servers of many distributions' debug information.
const SERVERS: &str = "https://debuginfod.elfutils.org";

/// Returns what to do about files without debug information, one sentence for all of them; none when there is nothing
/// to do.
pub fn missing_debug_hint(files: &BTreeSet<&str>) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    let packages: Vec<String> = packages_of(&owners(files)).into_iter().collect();
    let urls = env::var_os("DEBUGINFOD_URLS").unwrap_or_default();
    let asks_servers = !urls.as_encoded_bytes().trim_ascii().is_empty();
    let ways = match (packages.as_slice(), asks_servers) {
        ([], true) => return None,
        ([], false) => format!("set DEBUGINFOD_URLS={SERVERS}, or build with -g what is your own"),
        (packages, true) => format!("install {}", packages.join(" ")),
        (packages, false) => {
            format!(
                "install {}, or set DEBUGINFOD_URLS={SERVERS}",
                packages.join(" ")
            )
        }
    };
    let files: Vec<&str> = files.iter().copied().collect();
    Some(format!(
        "no debug information of {}: {ways}",
        files.join(", ")
    ))
}

/// The answer of `dpkg -S` about files, empty when there is none in time.
fn owners(files: &BTreeSet<&str>) -> String {
    let ask = || -> std::io::Result<String> {
        let mut answer = temporary::unnamed_file()?;
        let mut dpkg = Command::new("dpkg");
        dpkg.arg("-S").arg("--");
        for file in files.iter().take(FILES_MAX) {
            dpkg.arg(file);
            // Packages from before the folders were merged have the other path.
            dpkg.args(file.strip_prefix("/usr"));
        }
        dpkg.stdin(Stdio::null()).stderr(Stdio::null());
        dpkg.stdout(answer.try_clone()?);
        // It fails when it does not know one of them.
        end_in_time(&mut dpkg.spawn()?, Some(PATIENCE))?;
        answer.rewind()?;
        let mut text = String::new();
        answer.take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
        Ok(text)
    };
    ask().unwrap_or_default()
}

/// The packages with the debug information of packages that own files: `pigz: /usr/bin/pigz`.
fn packages_of(owners: &str) -> BTreeSet<String> {
    let lines = owners.lines().filter_map(|line| line.split_once(": "));
    let owners = lines.filter(|(owner, _)| !owner.contains(' '));
    let packages = owners.map(|(owner, _)| owner.split(':').next().unwrap_or(owner));
    let of_debug = packages.map(|package| match package {
        "libc6" => "libc6-dbg".to_owned(),
        package => format!("{package}-dbgsym"),
    });
    of_debug.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_those_that_own_the_files() {
        let owners = "pigz: /usr/bin/pigz\nlibc6:amd64: /lib/x86_64-linux-gnu/libc.so.6\n\
                      diversion by dash from: /bin/sh\nzlib1g:amd64: /lib/x86_64-linux-gnu/libz.so.1\n";
        let packages: Vec<String> = packages_of(owners).into_iter().collect();
        assert_eq!(packages, ["libc6-dbg", "pigz-dbgsym", "zlib1g-dbgsym"]);
        assert!(packages_of("").is_empty());
    }

    #[test]
    fn files_of_no_package_have_a_hint_unless_servers_are_asked() {
        assert_eq!(missing_debug_hint(&BTreeSet::new()), None);
        let hint = missing_debug_hint(&BTreeSet::from(["/nowhere/program"]));
        let asks_servers = env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.is_empty());
        assert_eq!(hint.is_none(), asks_servers);
    }
}
