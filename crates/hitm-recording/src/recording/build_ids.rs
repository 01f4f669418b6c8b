//! Files by build id: where perf, debuginfod and distributions keep copies on this host.
//!
//! - perf: `$PERF_BUILDID_DIR`, else `~/.debug`, then `.build-id/ab/cdef…/elf`, `debug`, `kallsyms`
//!   (tools/perf/util/build-id.c, `build_id_cache__cachedir` and `dso__build_id_filename`, Linux 6.1).
//! - debuginfod: `$DEBUGINFOD_CACHE_PATH`, else `$XDG_CACHE_HOME/debuginfod_client`, then the whole
//!   build id and `executable` or `debuginfo` (debuginfod_find_executable(3)).
//! - distributions: `/usr/lib/debug/.build-id/ab/cdef….debug`.

use std::env::var_os;
use std::path::{Path, PathBuf};

use hitm_files::input_file::{self, NamedBy};
use hitm_layout::{Bytes, Unread};

use super::debuginfod;

/// Content of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyOf {
    /// The program, library or kernel itself.
    Executable,
    /// Its debug information.
    DebugInfo,
    /// The symbols of a running kernel.
    Kallsyms,
}

/// The build id as caches and servers have it.
pub(super) fn hex(build_id: &[u8]) -> String {
    build_id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the paths where such a copy may lie, the likeliest first.
pub(crate) fn copies(build_id: &[u8], wanted: CopyOf) -> Vec<PathBuf> {
    let hex = hex(build_id);
    let Some((first, rest)) = hex.split_at_checked(2).filter(|(_, rest)| !rest.is_empty()) else {
        return Vec::new();
    };
    let home = || var_os("HOME").map(PathBuf::from);
    let perf = var_os("PERF_BUILDID_DIR")
        .map(PathBuf::from)
        .or_else(|| Some(home()?.join(".debug")))
        .map(|cache| cache.join(".build-id").join(first).join(rest));
    let debuginfod = var_os("DEBUGINFOD_CACHE_PATH")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(var_os("XDG_CACHE_HOME")?).join("debuginfod_client")))
        .or_else(|| Some(home()?.join(".cache/debuginfod_client")))
        .map(|cache| cache.join(&hex));
    let own = Path::new("/usr/lib/debug/.build-id").join(first);
    let (in_perf, in_debuginfod, of_distribution) = match wanted {
        CopyOf::Executable => ("elf", Some("executable"), None),
        CopyOf::DebugInfo => (
            "debug",
            Some("debuginfo"),
            Some(own.join(format!("{rest}.debug"))),
        ),
        CopyOf::Kallsyms => ("kallsyms", None, None),
    };
    let perf = perf.map(|cache| cache.join(in_perf));
    let debuginfod = debuginfod.zip(in_debuginfod);
    let debuginfod = debuginfod.map(|(cache, name)| cache.join(name));
    [of_distribution, perf, debuginfod]
        .into_iter()
        .flatten()
        .collect()
}

/// The build id in the path of a distribution's debug information.
fn build_id_of(path: &str) -> Option<Vec<u8>> {
    let name = path.strip_prefix("/usr/lib/debug/.build-id/")?;
    let hex = name.strip_suffix(".debug")?.replace('/', "");
    let digits = hex.as_bytes().chunks_exact(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    bytes.collect()
}

/// The bytes of a file that a recording or debug information names. Debug information that a
/// distribution has not installed may be in a cache, or on a server.
pub(super) fn load(path: &str) -> Result<Bytes, Unread> {
    input_file::load(path).or_else(|unread| {
        let build_id = build_id_of(path).ok_or_else(|| unread.clone())?;
        let mut caches = copies(&build_id, CopyOf::DebugInfo).into_iter();
        let read = |copy: PathBuf| input_file::bytes(&copy, NamedBy::Input).ok();
        let fetched = || debuginfod::fetch(&build_id, "debuginfo").and_then(read);
        caches.find_map(read).or_else(fetched).ok_or(unread)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_by_build_id_says_which() {
        let path = "/usr/lib/debug/.build-id/ab/cdef01.debug";
        assert_eq!(build_id_of(path), Some(vec![0xab, 0xcd, 0xef, 0x01]));
        let places = copies(&[0xab, 0xcd, 0xef, 0x01], CopyOf::DebugInfo);
        assert_eq!(places[0], Path::new(path));
        assert!(
            places[1].ends_with(".build-id/ab/cdef01/debug"),
            "{places:?}"
        );
        assert_eq!(build_id_of("/usr/lib/debug/bin/ls.debug"), None);
        assert!(copies(&[0xab], CopyOf::Executable).is_empty());
    }
}
