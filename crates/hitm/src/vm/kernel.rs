//! The kernel that a guest boots: a file, or one of Debian's packages.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use hitm_files::temporary;

use super::{VmError, cache_folder};

/// Source of the guest's kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSource {
    /// An image that QEMU can boot: `vmlinuz` or `bzImage`.
    File(PathBuf),
    /// The newest kernel package that apt knows, by the beginning of its version.
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
    /// Short name among other kernels: the version in the image.
    pub fn label(&self) -> String {
        let release = match self {
            KernelSource::File(path) => std::fs::read(path).ok().and_then(|image| release(&image)),
            KernelSource::Debian(_) => None,
        };
        release.unwrap_or_else(|| self.to_string())
    }

    /// Returns the image. A package is downloaded into `cache` and unpacked there, not installed.
    pub(super) fn image(&self, cache: &Path) -> Result<PathBuf, VmError> {
        match self {
            KernelSource::File(path) => Ok(path.clone()),
            KernelSource::Debian(version) => {
                let package = newest_package(version)?;
                let kernels = cache.join("kernels");
                cache_folder(&kernels)?;
                let directory = kernels.join(&package);
                match image_in(&directory) {
                    Some(image) => Ok(image),
                    None => download(&package, &directory),
                }
            }
        }
    }
}

/// The version in the header of an x86 image, without the distribution's suffix: "7.2.12" of
/// "7.2.12+deb13-amd64 (…)" (Documentation/arch/x86/boot.rst: `kernel_version`).
fn release(image: &[u8]) -> Option<String> {
    const MAGIC: usize = 0x202;
    const VERSION: usize = 0x20e;
    const SETUP: usize = 0x200;
    image.get(MAGIC..)?.strip_prefix(b"HdrS")?;
    let at = image.get(VERSION..VERSION + 2)?;
    let text = image.get(SETUP + usize::from(u16::from_le_bytes([at[0], at[1]]))..)?;
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let digits: Vec<u8> = text.iter().copied().take_while(is_number).collect();
    String::from_utf8(digits)
        .ok()
        .filter(|text| !text.is_empty())
}

/// The package with the highest version, of those for ordinary machines.
///
/// `linux-image-VERSION` holds the image, or (Linux 7.2 and later) depends on the `linux-binary-VERSION`
/// that does.
fn newest_package(version: &str) -> Result<String, VmError> {
    // 6.1 must not match 6.12.
    let pattern = format!(
        "^linux-(image|binary)-{}(\\.[.0-9]*)?[-+][^ ]*amd64$",
        version.replace('.', "\\.")
    );
    let output = Command::new("apt-cache")
        .args(["search", "--names-only", &pattern])
        .output()
        .map_err(|source| VmError::system("run apt-cache (debian: needs a Debian host)", source))?;
    newest(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| VmError::NoKernelPackage {
        version: version.to_owned(),
    })
}

/// Newest package of a listing, which has a name and a description a line.
fn newest(listing: &str) -> Option<String> {
    let names = listing.lines().filter_map(|line| line.split(' ').next());
    let plain = names.filter(|name| {
        !["cloud", "-rt-", "unsigned", "dbg"]
            .iter()
            .any(|word| name.contains(word))
    });
    plain
        .max_by_key(|name| (numbers(name), name.starts_with("linux-binary-")))
        .map(str::to_owned)
}

/// The numbers in a package's name, which order its versions.
fn numbers(name: &str) -> Vec<u64> {
    let words = name.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// `boot/vmlinuz-VERSION`, or `usr/lib/modules/VERSION/vmlinuz`.
fn image_in(directory: &Path) -> Option<PathBuf> {
    let inside = |directory: PathBuf| {
        let entries = std::fs::read_dir(directory).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path()))
    };
    let is_image = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("vmlinuz-")
    };
    let in_boot = inside(directory.join("boot")).find(is_image);
    let modules = || inside(directory.join("usr/lib/modules"));
    in_boot.or_else(|| {
        let mut images = modules().map(|version| version.join("vmlinuz"));
        images.find(|image| image.is_file())
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
    let scratch = temporary::directory().map_err(system("make a folder for the package"))?;
    let status = Command::new("apt-get")
        .args(["download", "-q", package])
        .current_dir(scratch.path())
        .output()
        .map_err(system("run apt-get"))?;
    if !status.status.success() {
        let said = String::from_utf8_lossy(&status.stderr);
        let lines: Vec<&str> = said.lines().map(str::trim).collect();
        return Err(failed(&lines.join("; ")));
    }
    let entries = std::fs::read_dir(scratch.path()).map_err(system("read what was downloaded"))?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let file = paths
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| failed("apt-get left no package"))?;
    cache_folder(directory)?;
    let status = Command::new("dpkg-deb")
        .arg("-x")
        .args([&file, directory])
        .status()
        .map_err(system("run dpkg-deb"))?;
    if !status.success() {
        return Err(failed("dpkg-deb cannot unpack it"));
    }
    image_in(directory).ok_or_else(|| failed("it holds no vmlinuz"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_versions() {
        let parse = |text: &str| text.parse::<KernelSource>().unwrap();
        assert_eq!(parse("debian:6.12"), KernelSource::Debian("6.12".into()));
        assert_eq!(parse("/boot/x"), KernelSource::File("/boot/x".into()));
    }

    #[test]
    fn an_image_says_its_version() {
        let mut image = vec![0; 0x300];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x80u16.to_le_bytes());
        image[0x280..0x28a].copy_from_slice(b"7.2.12+x y");
        assert_eq!(release(&image).as_deref(), Some("7.2.12"));
        image[0x20e..0x210].copy_from_slice(&0xffffu16.to_le_bytes());
        assert_eq!(release(&image), None);
        assert_eq!(release(b"short"), None);
    }

    #[test]
    fn the_newest_package_with_an_image_in_it() {
        let listing = "linux-image-6.12.95+deb12-amd64 - Linux 6.12 for 64-bit PCs (signed)\n\
            linux-image-6.12.100+deb12-amd64 - Linux 6.12 for 64-bit PCs (signed)\n\
            linux-image-6.12.101+deb12-cloud-amd64 - Linux 6.12 for x86-64 cloud (signed)\n";
        let name = newest(listing);
        assert_eq!(name.as_deref(), Some("linux-image-6.12.100+deb12-amd64"));
        let listing = "linux-binary-7.2.12+deb13-amd64 - Linux 7.2 for 64-bit PCs\n\
            linux-image-7.2.12+deb13-amd64 - Linux 7.2 for 64-bit PCs\n";
        let name = newest(listing);
        assert_eq!(name.as_deref(), Some("linux-binary-7.2.12+deb13-amd64"));
        assert_eq!(newest(""), None);
    }
}
