//! `cargo xtask dist [ARCH]`: packages for users, from what `scripts/portable` builds.
//!
//! An archive and a Debian package hold the same files. The plugins lie beside the program, where it looks for them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{hitm, output, root, run, run_with_env, target, text};

/// Architectures that packages are made for.
pub const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];

/// Libraries that the program preloads or loads into QEMU, installed beside it.
const LIBRARIES: [&str; 5] = [
    "libhitm_clock.so",
    "libhitm_heap.so",
    "libhitm_locks.so",
    "libhitm_qemu_api1.so",
    "libhitm_qemu_api2.so",
];
/// Shells, and the places of their completions below /usr.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/hitm"),
    ("zsh", "share/zsh/vendor-completions/_hitm"),
    ("fish", "share/fish/vendor_completions.d/hitm.fish"),
];
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Time of all files in the archives, fixed so that the same sources give the same bytes.
const TIME: &str = "@0";

/// Makes the packages of an architecture, this host's unless told: `target/dist/hitm-VERSION-ARCH-linux.tar.gz`
/// and `target/dist/hitm_VERSION_ARCH.deb`.
pub fn build(architecture: Option<&str>) -> Result<()> {
    let architecture = architecture.unwrap_or(std::env::consts::ARCH);
    run("scripts/portable", &[architecture])?;
    let folder = target().join("dist");
    let name = format!("hitm-{VERSION}-{architecture}-linux");
    let tree = folder.join(&name);
    let _ = fs::remove_dir_all(&tree);
    install(&tree, architecture)?;
    let archive = folder.join(format!("{name}.tar.gz"));
    let tar = format!(
        "tar --sort=name --mtime={TIME} --owner=0 --group=0 --numeric-owner -C {} -cf - {name} | gzip -n9 > {}",
        text(&folder)?,
        text(&archive)?
    );
    run("sh", &["-c", &tar])?;
    println!("{}", archive.display());
    println!("{}", debian(&folder, &tree, architecture)?.display());
    Ok(())
}

/// Installs all files below `prefix`, in their places below /usr.
fn install(prefix: &Path, architecture: &str) -> Result<()> {
    let built = target().join(format!("{architecture}-unknown-linux-gnu/portable"));
    let library = prefix.join("lib/hitm");
    for name in ["hitm"].into_iter().chain(LIBRARIES) {
        copy(&built.join(name), &library.join(name))?;
    }
    // Pages and completions are the same everywhere, so that a program of this host prints them.
    let program = match architecture == std::env::consts::ARCH {
        true => built.join("hitm"),
        false => hitm()?,
    };
    let bin = prefix.join("bin");
    fs::create_dir_all(&bin)?;
    std::os::unix::fs::symlink("../lib/hitm/hitm", bin.join("hitm"))?;
    let pages = prefix.join("share/man/man1");
    fs::create_dir_all(&pages)?;
    run(text(&program)?, &["man", text(&pages)?])?;
    for (shell, path) in COMPLETIONS {
        let path = prefix.join(path);
        fs::create_dir_all(path.parent().context("it lies in a folder")?)?;
        let script = output(text(&program)?, &["completions", shell])?;
        fs::write(path, script)?;
    }
    for name in [
        "README.md",
        "CHANGELOG.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "LICENSE-GPL",
    ] {
        copy(
            &root().join(name),
            &prefix.join("share/doc/hitm").join(name),
        )?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Makes the package of the files in `tree`.
fn debian(folder: &Path, tree: &Path, architecture: &str) -> Result<PathBuf> {
    let architecture = match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let package = folder.join("package");
    fs::create_dir_all(&package)?;
    run("cp", &["-a", text(tree)?, text(&package.join("usr"))?])?;
    let libc = glibc(&package.join("usr/lib/hitm/hitm"))?;
    let control = format!(
        "Package: hitm\n\
         Version: {VERSION}\n\
         Architecture: {architecture}\n\
         Maintainer: hitm developers <hitm@localhost>\n\
         Section: devel\n\
         Priority: optional\n\
         Depends: libc6 (>= {libc})\n\
         Recommends: qemu-user\n\
         Suggests: qemu-system-x86, linux-perf, hwloc-nox\n\
         Description: finds what the threads of a program fight over\n \
         Cache lines that bounce between CPUs, locks that spin, what that costs on\n \
         a machine of your choice, what to change, and what the change gains.\n"
    );
    let debian = package.join("DEBIAN");
    fs::create_dir_all(&debian)?;
    fs::write(debian.join("control"), control)?;
    let file = folder.join(format!("hitm_{VERSION}_{architecture}.deb"));
    let build = [
        "--root-owner-group",
        "-Zxz",
        "--build",
        text(&package)?,
        text(&file)?,
    ];
    run_with_env("dpkg-deb", &build, &[("SOURCE_DATE_EPOCH", "0")])?;
    fs::remove_dir_all(&package)?;
    Ok(file)
}

/// Newest version of glibc that the program needs.
fn glibc(program: &Path) -> Result<String> {
    let versions = output("readelf", &["--wide", "--version-info", text(program)?])?;
    let versions = versions.split("GLIBC_").skip(1);
    let versions = versions.filter_map(|rest| {
        let end = |c: char| c != '.' && !c.is_ascii_digit();
        let (major, minor) = rest.split(end).next()?.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    });
    let (major, minor) = versions.max().context("the program needs no glibc")?;
    Ok(format!("{major}.{minor}"))
}
