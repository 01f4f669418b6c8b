//! Files of /proc and /sys that tell of CPUs: the program reads the modelled machine's.
//!
//! All of them say the same: caches and packages have the CPUs that the program sees, at the model's sizes
//! and clock. When the program has opened one of them, its descriptor gets a file in memory with other contents.
//! QEMU opens files by instructions of its own, so there is no call that could be answered.

mod one_cpu;

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd as _;

use hitm_base::{CpuId, Machine};

use crate::cpus::Cpus;
use one_cpu::OneCpu;

/// The longest of these files that is read: /proc/stat of thousands of CPUs has less.
const BYTES_MAX: u64 = 16 << 20;

/// A file that tells of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CpuFile {
    /// CPUs that are online.
    Online,
    /// CPUs that the machine has.
    Possible,
    /// /proc/cpuinfo
    Info,
    /// /proc/stat
    Stat,
    /// /proc/PID/status, with the CPUs of a mask.
    Status,
    /// cpu.max of a cgroup: the program has all of its CPUs.
    Quota,
    /// The same of cgroup v1.
    QuotaV1,
    /// A fact about one CPU.
    One(OneCpu),
}

impl CpuFile {
    fn of_path(path: &str) -> Option<CpuFile> {
        let name = path.rsplit('/').next()?;
        let in_cgroup = || path.starts_with("/sys/fs/cgroup/");
        let own = || format!("/proc/{}/", std::process::id());
        Some(match (path, name) {
            ("/sys/devices/system/cpu/online", _) => CpuFile::Online,
            ("/sys/devices/system/cpu/possible" | "/sys/devices/system/cpu/present", _) => {
                CpuFile::Possible
            }
            ("/proc/cpuinfo", _) => CpuFile::Info,
            ("/proc/stat", _) => CpuFile::Stat,
            ("/proc/self/status" | "/proc/thread-self/status", _) => CpuFile::Status,
            (_, "status") if path.starts_with(&own()) => CpuFile::Status,
            (_, "cpu.max") if in_cgroup() => CpuFile::Quota,
            (_, "cpu.cfs_quota_us") if in_cgroup() => CpuFile::QuotaV1,
            (_, "cpuset.cpus" | "cpuset.cpus.effective" | "cpuset.effective_cpus")
                if in_cgroup() =>
            {
                CpuFile::Online
            }
            _ => CpuFile::One(OneCpu::of_path(path)?),
        })
    }

    /// The contents for the program, where the host's are `host`.
    fn contents(self, cpus: &Cpus, mask: &[CpuId], host: &str) -> String {
        match self {
            CpuFile::Online => list(cpus.online()) + "\n",
            CpuFile::Possible => match cpus.possible_count() {
                1 => "0\n".to_owned(),
                count => format!("0-{}\n", count - 1),
            },
            CpuFile::Info => info(cpus, host),
            CpuFile::Stat => stat(cpus.online(), host),
            CpuFile::Status => status(mask, cpus.possible_count(), host),
            CpuFile::Quota => "max 100000\n".to_owned(),
            CpuFile::QuotaV1 => "-1\n".to_owned(),
            CpuFile::One(one) => one.contents(cpus).unwrap_or_else(|| host.to_owned()),
        }
    }
}

/// Returns true if a file of this path may be one that tells of CPUs.
pub(crate) fn may_tell(path: &[u8]) -> bool {
    const NAMES: [&[u8]; 11] = [
        b"online",
        b"possible",
        b"present",
        b"cpuinfo",
        b"stat",
        b"status",
        b"cpu.max",
        b"cpu.cfs_quota_us",
        b"cpuset.cpus",
        b"cpuset.cpus.effective",
        b"cpuset.effective_cpus",
    ];
    let name = path.rsplit(|byte| *byte == b'/').next();
    let is_known = |name: &[u8]| NAMES.contains(&name) || one_cpu::NAMES.contains(&name);
    name.is_some_and(is_known)
}

/// Gives a file that the program has opened as `path` other contents, if it tells of CPUs. `mask` has the
/// CPUs of the calling thread.
pub(crate) fn opened(fd: c_int, path: &str, cpus: &Cpus, mask: impl FnOnce() -> Vec<CpuId>) {
    let of_path = CpuFile::of_path(path);
    // By another name, or relative to a directory.
    let file = of_path.or_else(|| {
        let real = fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
        CpuFile::of_path(real.to_str()?)
    });
    let Some(file) = file.filter(|_| is_read_only(fd)) else {
        return;
    };
    let mask = match file {
        CpuFile::Status => mask(),
        _ => Vec::new(),
    };
    let host = read_all(fd);
    let contents = file.contents(cpus, &mask, &String::from_utf8_lossy(&host));
    if !replace(fd, contents.as_bytes()) {
        // SAFETY: a plain system call.
        unsafe { libc::lseek(fd, 0, libc::SEEK_SET) };
    }
}

fn is_read_only(fd: c_int) -> bool {
    // SAFETY: a plain system call.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & (libc::O_ACCMODE | libc::O_PATH) == libc::O_RDONLY
}

fn read_all(fd: c_int) -> Vec<u8> {
    let mut all = Vec::new();
    // SAFETY: the descriptor is open, and stays so: it is the program's.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    // What there is before an error counts.
    let _ = (&*file).take(BYTES_MAX).read_to_end(&mut all);
    all
}

/// Puts a file with these contents behind a descriptor; false if that is not possible.
fn replace(fd: c_int, contents: &[u8]) -> bool {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a plain system call.
    let memory = unsafe { libc::memfd_create(c"hitm-cpus".as_ptr(), flags) };
    if memory < 0 {
        return false;
    }
    // SAFETY: the descriptor is new.
    let mut file = unsafe { File::from_raw_fd(memory) };
    let is_written = file.write_all(contents).and_then(|()| file.rewind());
    // SAFETY: system calls on a descriptor of our own, and one that takes over the program's.
    unsafe {
        let seals = libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK;
        libc::fcntl(memory, libc::F_ADD_SEALS, seals);
        let closes = libc::fcntl(fd, libc::F_GETFD) & libc::FD_CLOEXEC != 0;
        let flags = if closes { libc::O_CLOEXEC } else { 0 };
        is_written.is_ok() && libc::dup3(memory, fd, flags) == fd
    }
}

/// `0-3,8`, as the kernel writes sets of CPUs.
fn list(cpus: &[CpuId]) -> String {
    let mut text = String::new();
    let mut rest = cpus;
    while let Some(first) = rest.first() {
        let run = rest
            .iter()
            .zip(first.0..)
            .take_while(|(cpu, next)| cpu.0 == *next);
        let count = run.count();
        if !text.is_empty() {
            text.push(',');
        }
        match count {
            1 => write!(text, "{}", first.0),
            _ => write!(text, "{}-{}", first.0, rest[count - 1].0),
        }
        .expect("a string takes text");
        rest = &rest[count..];
    }
    text
}

/// /proc/cpuinfo: the host's first CPU for each, at its place in the machine. They are counted from 0, as where no
/// CPU is offline: readers take gaps for a broken machine. A CPU's own number is its APIC id.
fn info(cpus: &Cpus, host: &str) -> String {
    let first = host.split("\n\n").next().unwrap_or_default();
    let mut text = String::new();
    for (index, cpu) in cpus.online().iter().enumerate() {
        for line in first.lines() {
            let (key, _) = line.split_once(':').unwrap_or((line, ""));
            let value = match key.trim() {
                "processor" => Some(index.to_string()),
                "apicid" | "initial apicid" => Some(cpu.0.to_string()),
                name => cpus
                    .machine()
                    .and_then(|machine| of_machine(name, *cpu, cpus, machine)),
            };
            match value {
                Some(value) => writeln!(text, "{key}: {value}"),
                None => writeln!(text, "{line}"),
            }
            .expect("a string takes text");
        }
        text.push('\n');
    }
    text
}

/// The value of a line of /proc/cpuinfo that the machine model has.
fn of_machine(name: &str, cpu: CpuId, cpus: &Cpus, machine: &Machine) -> Option<String> {
    let topology = &machine.topology;
    let package = topology.package_of(cpu);
    let online = cpus.online().iter();
    let with = online.filter(|other| topology.package_of(**other) == package);
    Some(match name {
        "physical id" => package.to_string(),
        "core id" => topology.core_of(cpu).to_string(),
        "siblings" => with.count().to_string(),
        "cpu cores" => {
            let cores: BTreeSet<u16> = with.map(|other| topology.core_of(*other)).collect();
            cores.len().to_string()
        }
        "cpu MHz" => {
            let khz = machine.clock.khz();
            format!("{}.{:03}", khz / 1000, khz % 1000)
        }
        "cache size" => format!("{} KB", machine.caches.llc.size_bytes / 1024),
        _ => return None,
    })
}

/// /proc/stat: the times of the host's CPUs, again from the front for further ones.
fn stat(online: &[CpuId], host: &str) -> String {
    let of_cpu = |line: &str| -> Option<String> {
        let rest = line.strip_prefix("cpu")?;
        let (number, times) = rest.split_once(' ')?;
        number.parse::<u32>().ok().map(|_| times.to_owned())
    };
    let times: Vec<String> = host.lines().filter_map(of_cpu).collect();
    let mut text = String::new();
    for line in host.lines() {
        if of_cpu(line).is_some() {
            continue;
        }
        text.push_str(line);
        text.push('\n');
        if line.starts_with("cpu ") && !times.is_empty() {
            for (index, cpu) in online.iter().enumerate() {
                let times = &times[index % times.len()];
                writeln!(text, "cpu{} {times}", cpu.0).expect("a string takes text");
            }
        }
    }
    text
}

/// /proc/PID/status with the CPUs of `mask`.
fn status(mask: &[CpuId], possible: usize, host: &str) -> String {
    let mut text = String::new();
    for line in host.lines() {
        let (key, _) = line.split_once(':').unwrap_or((line, ""));
        match key {
            "Cpus_allowed" => writeln!(text, "{key}:\t{}", words(mask, possible)),
            "Cpus_allowed_list" => writeln!(text, "{key}:\t{}", list(mask)),
            _ => writeln!(text, "{line}"),
        }
        .expect("a string takes text");
    }
    text
}

/// `1,00000003`: a mask in words of 32 bits, as the kernel writes it.
fn words(mask: &[CpuId], possible: usize) -> String {
    let mut words = vec![0u32; possible.div_ceil(32).max(1)];
    for cpu in mask {
        if let Some(word) = words.get_mut(cpu.index() / 32) {
            *word |= 1 << (cpu.index() % 32);
        }
    }
    let texts = words.iter().rev().map(|word| format!("{word:08x}"));
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _};

    use super::*;

    pub(super) fn cpus() -> Cpus {
        let machine = hitm_base::machine::preset("broadwell-4s").unwrap();
        Cpus::new([0, 1, 2, 24, 70].map(CpuId).to_vec(), machine.to_owned())
    }

    fn contents(file: CpuFile, host: &str) -> String {
        file.contents(&cpus(), &[CpuId(1), CpuId(70)], host)
    }

    #[test]
    fn sets_are_written_as_the_kernel_does() {
        assert_eq!(contents(CpuFile::Online, "0-1\n"), "0-2,24,70\n");
        let last = cpus().topology().unwrap().cpu_count() - 1;
        assert_eq!(contents(CpuFile::Possible, "0-1\n"), format!("0-{last}\n"));
        let host = "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\nEnd:\t1\n";
        let status = contents(CpuFile::Status, host);
        assert!(status.starts_with("Name:\tx\nCpus_allowed:\t"), "{status}");
        assert!(
            status.ends_with("00000040,00000000,00000002\nCpus_allowed_list:\t1,70\nEnd:\t1\n"),
            "{status}"
        );
    }

    #[test]
    fn cpuinfo_and_stat_have_a_part_for_each_cpu() {
        let host = "processor\t: 0\nphysical id\t: 0\nsiblings\t: 9\ncpu cores\t: 9\napicid\t\t: 0\ncpu MHz\t\t: 1.5\n\
                    cache size\t: 9 KB\nflags\t: a b\n\nprocessor\t: 1\n\n";
        let info = contents(CpuFile::Info, host);
        let numbers = info
            .lines()
            .filter_map(|line| line.strip_prefix("processor\t: "));
        assert_eq!(numbers.collect::<Vec<_>>(), ["0", "1", "2", "3", "4"]);
        assert_eq!(info.matches("flags\t: a b\n").count(), 5);
        let last = info.trim_end().rsplit("\n\n").next().unwrap();
        assert_eq!(
            last,
            "processor\t: 4\nphysical id\t: 2\nsiblings\t: 1\ncpu cores\t: 1\napicid\t\t: 70\ncpu MHz\t\t: 2600.000\n\
             cache size\t: 61440 KB\nflags\t: a b"
        );
        assert!(
            info.starts_with("processor\t: 0\nphysical id\t: 0\nsiblings\t: 3\ncpu cores\t: 3\n")
        );
        let host = "cpu  9 9\ncpu0 1 2\ncpu1 3 4\nintr 5\n";
        let expected = "cpu  9 9\ncpu0 1 2\ncpu1 3 4\ncpu2 1 2\ncpu24 3 4\ncpu70 1 2\nintr 5\n";
        assert_eq!(contents(CpuFile::Stat, host), expected);
    }

    #[test]
    fn an_open_file_gets_other_contents() {
        let link = std::env::temp_dir().join(format!("hitm-cpus-{}", std::process::id()));
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("/proc/stat", &link).unwrap();
        for path in ["/proc/stat", link.to_str().unwrap()] {
            let fd = fs::File::open(path).unwrap().into_raw_fd();
            opened(fd, path, &cpus(), Vec::new);
            // SAFETY: the descriptor is ours.
            let mut file = unsafe { fs::File::from_raw_fd(fd) };
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert!(text.contains("\ncpu70 "), "{text}");
            assert!(file.write(b"x").is_err());
        }
        fs::remove_file(&link).unwrap();
        let mut other = fs::File::open("/proc/version").unwrap();
        opened(other.as_raw_fd(), "/proc/version", &cpus(), Vec::new);
        let mut text = String::new();
        other.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("Linux"));
    }

    #[test]
    fn files_are_known_by_their_paths() {
        let known = |path: &str| may_tell(path.as_bytes()).then(|| CpuFile::of_path(path));
        let expected = Some(Some(CpuFile::Quota));
        assert_eq!(known("/sys/fs/cgroup/a/cpu.max"), expected);
        assert_eq!(known("/proc/1/stat"), Some(None));
        assert_eq!(known("/tmp/cpu.max"), Some(None));
        assert_eq!(known("/etc/passwd"), None);
    }
}
