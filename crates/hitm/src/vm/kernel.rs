//! The kernel that a guest boots: a file, or one of Debian's packages.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use super::VmError;

/// Where a kernel comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSource {
    /// An image that QEMU can boot: `vmlinuz` or `bzImage`.
    File(PathBuf),
    /// The newest package `linux-image-VERSION…` that apt knows, by the beginning of its version.
    Debian(String),
}

impl fmt::Display for KernelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelSource::File(path) => {
                let name = path.file_name().unwrap_or(path.as_os_str());
                f.write_str(&name.to_string_lossy())
            }
            KernelSource::Debian(version) => write!(f, "debian:{version}"),
        }
    }
}

impl FromStr for KernelSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<KernelSource, Self::Err> {
        Ok(match text.strip_prefix("debian:") {
            Some(version) => KernelSource::Debian(version.to_owned()),
            None => KernelSource::File(text.into()),
        })
    }
}

impl KernelSource {
    /// The image; a package is downloaded into `cache` and unpacked there, and not installed.
    pub(super) fn image(&self, cache: &Path) -> Result<PathBuf, VmError> {
        match self {
            KernelSource::File(path) => Ok(path.clone()),
            KernelSource::Debian(version) => {
                let package = newest_package(version)?;
                let directory = cache.join("kernels").join(&package);
                match image_in(&directory) {
                    Some(image) => Ok(image),
                    None => download(&package, &directory),
                }
            }
        }
    }
}

/// The package with the highest version, of those for ordinary machines.
fn newest_package(version: &str) -> Result<String, VmError> {
    // 6.1 is not 6.12.
    let pattern = format!(
        "^linux-image-{}(\\.[.0-9]*)?[-+][^ ]*amd64$",
        version.replace('.', "\\.")
    );
    let output = Command::new("apt-cache")
        .args(["search", "--names-only", &pattern])
        .output()
        .map_err(|source| VmError::system("run apt-cache (debian: needs a Debian host)", source))?;
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let packages = listing.lines().filter_map(|line| line.split(' ').next());
    let plain = packages.filter(|name| {
        !["cloud", "-rt-", "unsigned", "dbg"]
            .iter()
            .any(|word| name.contains(word))
    });
    plain
        .max_by_key(|name| numbers(name))
        .map(str::to_owned)
        .ok_or_else(|| VmError::NoKernelPackage {
            version: version.to_owned(),
        })
}

/// The numbers in a package's name, which order its versions.
fn numbers(name: &str) -> Vec<u64> {
    let words = name.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

fn image_in(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory.join("boot")).ok()?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
    })
}

fn download(package: &str, directory: &Path) -> Result<PathBuf, VmError> {
    let failed = |what: &str| VmError::Download {
        package: package.to_owned(),
        what: what.to_owned(),
    };
    let system = |what: &str| {
        let what = what.to_owned();
        move |source| VmError::System { what, source }
    };
    let scratch = tempfile::tempdir().map_err(system("make a temporary directory"))?;
    let status = Command::new("apt-get")
        .args(["download", "-q", package])
        .current_dir(scratch.path())
        .output()
        .map_err(system("run apt-get"))?;
    if !status.status.success() {
        return Err(failed(String::from_utf8_lossy(&status.stderr).trim()));
    }
    let entries = std::fs::read_dir(scratch.path()).map_err(system("read what was downloaded"))?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let file = paths
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| failed("apt-get left no package"))?;
    std::fs::create_dir_all(directory).map_err(system("make the cache directory"))?;
    let status = Command::new("dpkg-deb")
        .arg("-x")
        .args([&file, directory])
        .status()
        .map_err(system("run dpkg-deb"))?;
    if !status.success() {
        return Err(failed("dpkg-deb cannot unpack it"));
    }
    image_in(directory).ok_or_else(|| failed("it holds no boot/vmlinuz"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_versions() {
        let parse = |text: &str| text.parse::<KernelSource>().unwrap();
        assert_eq!(parse("debian:6.12"), KernelSource::Debian("6.12".into()));
        assert_eq!(parse("/boot/x"), KernelSource::File("/boot/x".into()));
        assert!(
            numbers("linux-image-6.12.100+deb12-amd64")
                > numbers("linux-image-6.12.95+deb12-amd64")
        );
    }
}
