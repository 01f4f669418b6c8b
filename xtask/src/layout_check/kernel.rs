//! The two kernels: the running one, and Debian's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// The running kernel's types.
pub(super) const VMLINUX: &str = "/sys/kernel/btf/vmlinux";

/// A kernel's BTF.
pub(super) struct Kernel {
    pub(super) name: String,
    /// hitm's input: raw BTF, or the kernel as an ELF file.
    pub(super) source: PathBuf,
    /// Raw BTF, for the other tools.
    pub(super) raw: PathBuf,
}

/// The running kernel, if it has BTF.
pub(super) fn running(work: &Path) -> Result<Option<Kernel>> {
    if !Path::new(VMLINUX).exists() {
        return Ok(None);
    }
    let raw = work.join("running.btf");
    let bytes = std::fs::read(VMLINUX).with_context(|| format!("cannot read {VMLINUX}"))?;
    std::fs::write(&raw, bytes)?;
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(Some(Kernel {
        name: format!("running kernel {}", release.trim()),
        source: VMLINUX.into(),
        raw,
    }))
}

/// Debian's kernel from bookworm-backports, from the mirror that apt is configured with. apt gets
/// lists and packages of its own below `work`; nothing is installed.
pub(super) fn debian(work: &Path) -> Result<Kernel> {
    let (vmlinux, raw) = (work.join("debian.vmlinux"), work.join("debian.btf"));
    let label = work.join("debian.name");
    if !raw.exists() {
        let folder = work.join("apt");
        let package = download(&folder)?;
        let image = unpack(&folder, &package)?;
        std::fs::write(&vmlinux, decompressed(&std::fs::read(image)?)?)?;
        std::fs::write(&label, &package)?;
        // Last, so that its result marks the whole download as complete.
        extract(&vmlinux, &raw)?;
    }
    let package = std::fs::read_to_string(&label)?;
    Ok(Kernel {
        name: format!("Debian's {package}"),
        source: vmlinux,
        raw,
    })
}

/// Downloads the kernel's package; returns its name.
fn download(folder: &Path) -> Result<String> {
    for part in ["lists/partial", "cache/archives/partial"] {
        std::fs::create_dir_all(folder.join(part))?;
    }
    let targets = run(Command::new("apt-get").args(["indextargets", "--format", "$(REPO_URI)"]))?;
    let is_debian = |uri: &&str| uri.trim_end_matches('/').ends_with("/debian");
    let Some(mirror) = targets.lines().find(is_debian) else {
        bail!("apt is configured with no mirror of Debian");
    };
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let list = format!("deb [signed-by={keys}] {mirror} bookworm-backports main\n");
    std::fs::write(folder.join("sources.list"), list)?;
    let place = folder.canonicalize()?;
    let place = place.display();
    let options = [
        format!("Dir::Etc::SourceList={place}/sources.list"),
        "Dir::Etc::SourceParts=/dev/null".to_owned(),
        format!("Dir::State::Lists={place}/lists"),
        format!("Dir::Cache={place}/cache"),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let apt = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        for option in &options {
            command.args(["-o", option]);
        }
        run(command.args(args).current_dir(folder))
    };
    apt("apt-get", &["update"])?;
    let depends = apt("apt-cache", &["depends", "linux-image-amd64"])?;
    let mut words = depends.split_whitespace();
    let package = words.find(|word| word.starts_with("linux-image-6."));
    let package = package.context("linux-image-amd64 depends on no linux-image-6")?;
    apt("apt-get", &["download", package])?;
    Ok(package.to_owned())
}

/// Extracts the compressed kernel from the package.
fn unpack(folder: &Path, package: &str) -> Result<PathBuf> {
    let script = "dpkg-deb --fsys-tarfile \"$1\"_*.deb | tar -x --wildcards './boot/vmlinuz-*'";
    let mut command = Command::new("sh");
    run(command
        .args(["-c", script, "sh", package])
        .current_dir(folder))?;
    let mut images = std::fs::read_dir(folder.join("boot"))?;
    let image = images.next().context("the package has no kernel")??;
    Ok(image.path())
}

/// Decompresses the kernel inside a bzImage. The header has its place:
/// Documentation/arch/x86/boot.rst, `setup_sects`, `payload_offset`, `payload_length` (protocol
/// 2.08).
fn decompressed(image: &[u8]) -> Result<Vec<u8>> {
    let word = |at: usize| {
        let bytes = image
            .get(at..at + 4)
            .context("the kernel image is cut off")?;
        Ok::<usize, anyhow::Error>(u32::from_le_bytes(bytes.try_into()?) as usize)
    };
    ensure!(
        image.get(0x202..0x206) == Some(b"HdrS"),
        "this is no bzImage"
    );
    let setup_sectors = match image[0x1f1] {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let start = (setup_sectors + 1) * 512 + word(0x248)?;
    let payload = image.get(start..start + word(0x24c)?);
    let payload = payload.context("the payload goes on behind the image")?;
    if payload.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        // The size follows the frame, for the kernel's own loader.
        let decoder = zstd::Decoder::with_buffer(payload)?;
        let mut kernel = Vec::new();
        std::io::Read::read_to_end(&mut decoder.single_frame(), &mut kernel)?;
        return Ok(kernel);
    }
    ensure!(
        payload.starts_with(b"\xfd7zXZ"),
        "the kernel is compressed with neither zstd nor xz"
    );
    let mut xz = Command::new("xz")
        .args(["-dc", "--single-stream"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run xz")?;
    let mut input = xz.stdin.take().context("xz has no input")?;
    let payload = payload.to_vec();
    // xz stops reading behind the stream; that is no error.
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut input, &payload).ok());
    let output = xz.wait_with_output()?;
    writer.join().expect("the writer does not panic");
    Ok(output.stdout)
}

/// Writes the BTF section as a file, for tools that need it raw.
fn extract(vmlinux: &Path, raw: &Path) -> Result<()> {
    let mut section = std::ffi::OsString::from(".BTF=");
    section.push(raw);
    let mut objcopy = Command::new("objcopy");
    run(objcopy
        .arg("--dump-section")
        .arg(section)
        .arg(vmlinux)
        .arg("/dev/null"))?;
    Ok(())
}

/// Runs a command; returns its output.
fn run(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command
        .output()
        .with_context(|| format!("cannot start {shown}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("{shown}: {}", error.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
