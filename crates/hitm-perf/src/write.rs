//! Writes a perf.data file that stock perf opens as a c2c recording.
//!
//! Two events, by whose names perf knows a c2c recording, and one sample type for both. The file is
//! little-endian and written from front to back, but for the header, which is written again at the
//! end with the length of the data. Memory does not grow with the samples.
//!
//! ```text
//! header | ids | attributes | records ... | table of feature sections | feature sections
//! ```

use std::io::{self, Seek, SeekFrom, Write};

use crate::format::{FILE_HEADER_LEN, MAGIC, context, feature, misc, record, sample};
use crate::{CpuMode, EventKind, Sample};

/// Length of `struct perf_event_attr`, version 7, which Linux 5.13 and later write.
const ATTR_LEN: usize = 128;

/// What every sample of ours holds; files with call chains have those as well.
const SAMPLE_TYPE: u64 = sample::IDENTIFIER
    | sample::IP
    | sample::TID
    | sample::TIME
    | sample::ADDR
    | sample::CPU
    | sample::PERIOD
    | sample::WEIGHT
    | sample::DATA_SRC;

/// Length of the `sample_id` at the end of every other record: ids of process and thread, time,
/// CPU, identifier.
const SAMPLE_ID_LEN: usize = 32;

/// The name of perf's load event.
pub const LOADS_NAME: &str = "cpu/mem-loads,ldlat=30/P";
/// The name of perf's store event.
pub const STORES_NAME: &str = "cpu/mem-stores/P";

/// Attributes of an event: `perf_event_attr` as far as we fill it in.
struct Attr {
    id: u64,
    name: &'static str,
    /// The raw event of Intel's load latency and precise stores: perf shows the name, but other
    /// tools look here.
    config: u64,
    config1: u64,
}

const ATTRS: [Attr; 2] = [
    Attr {
        id: 1,
        name: LOADS_NAME,
        config: 0x1cd,
        config1: 30,
    },
    Attr {
        id: 2,
        name: STORES_NAME,
        config: 0x82d0,
        config1: 0,
    },
];

const ATTRS_OFFSET: usize = FILE_HEADER_LEN + 8 * ATTRS.len();
const DATA_OFFSET: usize = ATTRS_OFFSET + (ATTR_LEN + 16) * ATTRS.len();

/// A CPU of the described machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuInfo {
    /// Core within its package.
    pub core: u32,
    /// Package.
    pub package: u32,
    /// NUMA node.
    pub node: u32,
}

/// What the feature sections say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileInfo {
    /// Name of the machine.
    pub hostname: String,
    /// Version of what wrote the file.
    pub version: String,
    /// `x86_64` or `aarch64`.
    pub arch: String,
    /// One line about the CPUs.
    pub cpu_description: String,
    /// CPUID in perf's form: vendor,family,model,stepping.
    pub cpuid: String,
    /// The recorded command.
    pub command: Vec<String>,
    /// The CPUs, by number.
    pub cpus: Vec<CpuInfo>,
}

/// A mapping as perf writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmapInfo {
    /// Process.
    pub pid: u32,
    /// How many processes had this number before.
    pub life: u16,
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Place in the file.
    pub file_offset: u64,
    /// Whether code may run from it.
    pub executable: bool,
    /// The file, or a name in brackets.
    pub path: String,
    /// Build id, empty when unknown.
    pub build_id: Vec<u8>,
}

/// When something happened, and to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// CPU.
    pub cpu: u32,
    /// Nanoseconds.
    pub time_ns: u64,
}

/// What the samples of a file have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleForm {
    /// How many accesses a sample stands for.
    pub period: u64,
    /// Whether samples have call chains.
    pub has_callers: bool,
}

impl SampleForm {
    fn sample_type(self) -> u64 {
        match self.has_callers {
            true => SAMPLE_TYPE | sample::CALLCHAIN,
            false => SAMPLE_TYPE,
        }
    }
}

/// Writes a file.
#[derive(Debug)]
pub struct PerfDataWriter<W> {
    writer: W,
    /// Bytes of records so far.
    data_len: u64,
    buffer: Vec<u8>,
    form: SampleForm,
    /// Files that were mapped, in order; the place is the inode that perf tells them apart by.
    files: Vec<(String, Vec<u8>)>,
    first_time_ns: u64,
    last_time_ns: u64,
}

impl<W: Write + Seek> PerfDataWriter<W> {
    /// Writes the head.
    pub fn new(mut writer: W, form: SampleForm) -> io::Result<PerfDataWriter<W>> {
        writer.write_all(&head(0, &[], form))?;
        Ok(PerfDataWriter {
            writer,
            data_len: 0,
            buffer: Vec::new(),
            form,
            files: Vec::new(),
            first_time_ns: u64::MAX,
            last_time_ns: 0,
        })
    }

    /// A sample of one of the two events, and who called its function, innermost call first; callers
    /// are written when the file's samples have them.
    pub fn sample(&mut self, kind: EventKind, sample: &Sample, callers: &[u64]) -> io::Result<()> {
        self.first_time_ns = self.first_time_ns.min(sample.time_ns);
        self.last_time_ns = self.last_time_ns.max(sample.time_ns);
        self.begin(record::SAMPLE, sample.mode as u16);
        let id = match kind {
            EventKind::Loads => ATTRS[0].id,
            EventKind::Stores => ATTRS[1].id,
        };
        let out = &mut self.buffer;
        put64(out, id);
        put64(out, sample.ip);
        put32(out, sample.pid);
        put32(out, sample.tid);
        put64(out, sample.time_ns);
        put64(out, sample.addr);
        put32(out, sample.cpu);
        put32(out, 0);
        put64(out, self.form.period);
        if self.form.has_callers {
            put_chain(out, sample, callers);
        }
        put64(out, sample.weight);
        put64(out, sample.data_src.0);
        self.end()
    }

    /// A thread's name.
    pub fn comm(&mut self, at: Moment, name: &str, is_exec: bool) -> io::Result<()> {
        let misc = if is_exec { misc::COMM_EXEC } else { 0 };
        self.begin(record::COMM, misc | misc::USER);
        put32(&mut self.buffer, at.pid);
        put32(&mut self.buffer, at.tid);
        // TASK_COMM_LEN: the kernel keeps 15 bytes of a name.
        let len = (0..=name.len().min(15))
            .rev()
            .find(|len| name.is_char_boundary(*len));
        put_padded(&mut self.buffer, &name[..len.unwrap_or(0)]);
        self.end_with_id(at)
    }

    /// A thread of the process began; told by the parent.
    pub fn fork(&mut self, at: Moment, parent_tid: u32) -> io::Result<()> {
        self.fork_or_exit(record::FORK, at, [at.pid, parent_tid])
    }

    /// A process began that has nothing from the one that began it.
    pub fn fork_process(&mut self, at: Moment) -> io::Result<()> {
        self.fork_or_exit(record::FORK, at, [0, 0])
    }

    /// A thread ended.
    pub fn exit(&mut self, at: Moment) -> io::Result<()> {
        self.fork_or_exit(record::EXIT, at, [at.pid, at.tid])
    }

    fn fork_or_exit(&mut self, kind: u32, at: Moment, parent: [u32; 2]) -> io::Result<()> {
        let [parent_pid, parent_tid] = parent;
        self.begin(kind, misc::USER);
        for id in [at.pid, parent_pid, at.tid, parent_tid] {
            put32(&mut self.buffer, id);
        }
        put64(&mut self.buffer, at.time_ns);
        self.end_with_id(at)
    }

    /// A mapping.
    pub fn mmap(&mut self, at: Moment, mapping: &MmapInfo) -> io::Result<()> {
        let is_data = if mapping.executable {
            0
        } else {
            misc::MMAP_DATA
        };
        let inode = self.inode(mapping);
        self.begin(record::MMAP2, is_data | misc::USER);
        let out = &mut self.buffer;
        put32(out, mapping.pid);
        put32(out, at.tid);
        put64(out, mapping.start);
        put64(out, mapping.end.saturating_sub(mapping.start));
        put64(out, mapping.file_offset);
        // Device 0:0 and inode 0 mean memory without a file.
        put32(out, 0);
        put32(out, u32::from(inode != 0));
        put64(out, inode);
        put64(out, 0);
        const PROT_READ: u32 = 1;
        const PROT_WRITE: u32 = 2;
        const PROT_EXEC: u32 = 4;
        const MAP_PRIVATE: u32 = 2;
        put32(
            out,
            PROT_READ
                | if mapping.executable {
                    PROT_EXEC
                } else {
                    PROT_WRITE
                },
        );
        put32(out, MAP_PRIVATE);
        let path_max = usize::from(u16::MAX) - 256;
        let len = (0..=mapping.path.len().min(path_max)).rev();
        let len = len
            .into_iter()
            .find(|len| mapping.path.is_char_boundary(*len));
        put_padded(out, &mapping.path[..len.unwrap_or(0)]);
        self.end_with_id(at)
    }

    /// The number that tells a file from others, 0 for memory without a file.
    fn inode(&mut self, mapping: &MmapInfo) -> u64 {
        if !mapping.path.starts_with('/') || mapping.path.starts_with("//") {
            return 0;
        }
        let known = self
            .files
            .iter()
            .position(|(path, _)| *path == mapping.path);
        let index = known.unwrap_or_else(|| {
            self.files
                .push((mapping.path.clone(), mapping.build_id.clone()));
            self.files.len() - 1
        });
        index as u64 + 1
    }

    /// Writes the feature sections and the final header, and flushes.
    pub fn finish(mut self, info: &FileInfo) -> io::Result<W> {
        let features = features(&self, info);
        let table_offset = DATA_OFFSET as u64 + self.data_len;
        let mut offset = table_offset + 16 * features.len() as u64;
        let mut tail = Vec::new();
        for (_, section) in &features {
            put64(&mut tail, offset);
            put64(&mut tail, section.len() as u64);
            offset += section.len() as u64;
        }
        features
            .iter()
            .for_each(|(_, section)| tail.extend_from_slice(section));
        self.writer.write_all(&tail)?;
        let bits: Vec<u8> = features.iter().map(|(bit, _)| *bit).collect();
        self.writer.seek(SeekFrom::Start(0))?;
        self.writer
            .write_all(&head(self.data_len, &bits, self.form))?;
        self.writer.flush()?;
        Ok(self.writer)
    }

    fn begin(&mut self, kind: u32, misc: u16) {
        self.buffer.clear();
        put32(&mut self.buffer, kind);
        self.buffer.extend_from_slice(&misc.to_le_bytes());
        self.buffer.extend_from_slice(&[0; 2]);
    }

    fn end_with_id(&mut self, at: Moment) -> io::Result<()> {
        let before = self.buffer.len();
        let out = &mut self.buffer;
        put32(out, at.pid);
        put32(out, at.tid);
        put64(out, at.time_ns);
        put32(out, at.cpu);
        put32(out, 0);
        put64(out, ATTRS[0].id);
        debug_assert_eq!(out.len() - before, SAMPLE_ID_LEN);
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        let len = u16::try_from(self.buffer.len()).expect("names are cut to fit a record");
        self.buffer[6..8].copy_from_slice(&len.to_le_bytes());
        self.writer.write_all(&self.buffer)?;
        self.data_len += u64::from(len);
        Ok(())
    }
}

/// Everything before the records.
fn head(data_len: u64, feature_bits: &[u8], form: SampleForm) -> Vec<u8> {
    let mut out = Vec::with_capacity(DATA_OFFSET);
    out.extend_from_slice(&MAGIC);
    let attrs_len = (ATTR_LEN + 16) * ATTRS.len();
    let sections = [
        (ATTRS_OFFSET, attrs_len),
        (DATA_OFFSET, data_len as usize),
        (0, 0),
    ];
    put64(&mut out, FILE_HEADER_LEN as u64);
    put64(&mut out, (ATTR_LEN + 16) as u64);
    for (offset, len) in sections {
        put64(&mut out, offset as u64);
        put64(&mut out, len as u64);
    }
    let bits = feature_bits.iter().fold(0, |bits, bit| bits | 1u64 << bit);
    for word in [bits, 0, 0, 0] {
        put64(&mut out, word);
    }
    ATTRS.iter().for_each(|attr| put64(&mut out, attr.id));
    for (index, attr) in ATTRS.iter().enumerate() {
        put_attr(&mut out, attr, form);
        put64(&mut out, (FILE_HEADER_LEN + 8 * index) as u64);
        put64(&mut out, 8);
    }
    out
}

/// `struct perf_event_attr`.
fn put_attr(out: &mut Vec<u8>, attr: &Attr, form: SampleForm) {
    /// `PERF_TYPE_RAW`: an event of the CPU by number.
    const TYPE_RAW: u32 = 4;
    const READ_FORMAT_ID: u64 = 4;
    const INHERIT: u64 = 1 << 1;
    const MMAP: u64 = 1 << 8;
    const COMM: u64 = 1 << 9;
    const TASK: u64 = 1 << 13;
    /// As precise as the CPU can: the `P` of the events' names.
    const PRECISE_IP: u64 = 3 << 15;
    const MMAP_DATA: u64 = 1 << 17;
    const SAMPLE_ID_ALL: u64 = 1 << 18;
    const MMAP2: u64 = 1 << 23;
    const COMM_EXEC: u64 = 1 << 24;
    let flags =
        INHERIT | MMAP | COMM | TASK | PRECISE_IP | MMAP_DATA | SAMPLE_ID_ALL | MMAP2 | COMM_EXEC;
    let start = out.len();
    put32(out, TYPE_RAW);
    put32(out, ATTR_LEN as u32);
    put64(out, attr.config);
    for word in [form.period, form.sample_type(), READ_FORMAT_ID, flags] {
        put64(out, word);
    }
    put32(out, 0); // wakeup_events
    put32(out, 0); // bp_type
    put64(out, attr.config1);
    out.resize(start + ATTR_LEN, 0);
}

/// The feature sections in the order of their bits.
fn features<W>(writer: &PerfDataWriter<W>, info: &FileInfo) -> Vec<(u8, Vec<u8>)> {
    let text = |value: &str| {
        let mut out = Vec::new();
        put_string(&mut out, value);
        out
    };
    let mut times = Vec::new();
    put64(&mut times, writer.first_time_ns.min(writer.last_time_ns));
    put64(&mut times, writer.last_time_ns);
    let mut cpus = Vec::new();
    put32(&mut cpus, info.cpus.len() as u32);
    put32(&mut cpus, info.cpus.len() as u32);
    let mut command = Vec::new();
    put32(&mut command, info.command.len() as u32);
    info.command
        .iter()
        .for_each(|arg| put_string(&mut command, arg));
    vec![
        (feature::BUILD_ID, build_ids(&writer.files)),
        (feature::HOSTNAME, text(&info.hostname)),
        // A modelled machine has no kernel; perf wants a word here.
        (feature::OSRELEASE, text("modelled")),
        (feature::VERSION, text(&info.version)),
        (feature::ARCH, text(&info.arch)),
        (feature::NRCPUS, cpus),
        (feature::CPUDESC, text(&info.cpu_description)),
        (feature::CPUID, text(&info.cpuid)),
        (feature::CMDLINE, command),
        (feature::EVENT_DESC, event_descriptions(writer.form)),
        (feature::CPU_TOPOLOGY, cpu_topology(&info.cpus)),
        (feature::NUMA_TOPOLOGY, numa_topology(&info.cpus)),
        (feature::SAMPLE_TIME, times),
        (feature::MEM_TOPOLOGY, memory_topology(&info.cpus)),
    ]
}

fn build_ids(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (path, build_id) in files.iter().filter(|(_, build_id)| !build_id.is_empty()) {
        let start = out.len();
        put32(&mut out, record::HEADER_BUILD_ID);
        out.extend_from_slice(&(misc::USER | misc::BUILD_ID_SIZE).to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        put32(&mut out, u32::MAX); // any process
        let len = build_id.len().min(20);
        out.extend_from_slice(&build_id[..len]);
        out.resize(start + 32, 0);
        out.push(len as u8);
        out.resize(start + 36, 0);
        let name_len = path.len() + 1;
        out.extend_from_slice(path.as_bytes());
        out.resize(start + 36 + name_len.next_multiple_of(64), 0);
        let len = (out.len() - start) as u16;
        out[start + 6..start + 8].copy_from_slice(&len.to_le_bytes());
    }
    out
}

fn event_descriptions(form: SampleForm) -> Vec<u8> {
    let mut out = Vec::new();
    put32(&mut out, ATTRS.len() as u32);
    put32(&mut out, ATTR_LEN as u32);
    for attr in &ATTRS {
        put_attr(&mut out, attr, form);
        put32(&mut out, 1);
        put_string(&mut out, attr.name);
        put64(&mut out, attr.id);
    }
    out
}

fn cpu_topology(cpus: &[CpuInfo]) -> Vec<u8> {
    let mut out = Vec::new();
    let packages = groups(cpus, |cpu| (cpu.package, 0));
    let cores = groups(cpus, |cpu| (cpu.package, cpu.core));
    for lists in [packages, cores] {
        put32(&mut out, lists.len() as u32);
        lists
            .iter()
            .for_each(|(_, list)| put_string(&mut out, list));
    }
    for cpu in cpus {
        put32(&mut out, cpu.core);
        put32(&mut out, cpu.package);
    }
    out
}

fn numa_topology(cpus: &[CpuInfo]) -> Vec<u8> {
    let mut out = Vec::new();
    let nodes = groups(cpus, |cpu| (cpu.node, 0));
    put32(&mut out, nodes.len() as u32);
    for ((node, _), list) in &nodes {
        put32(&mut out, *node);
        put64(&mut out, 0); // memory in all, not modelled
        put64(&mut out, 0); // free memory
        put_string(&mut out, list);
    }
    out
}

/// Which block of memory is in which node. Our samples have no physical addresses that perf could
/// look up here, but without any block it warns: one for each node.
fn memory_topology(cpus: &[CpuInfo]) -> Vec<u8> {
    const VERSION: u64 = 1;
    const BLOCK_LEN: u64 = 128 << 20;
    let nodes = groups(cpus, |cpu| (cpu.node, 0));
    let mut out = Vec::new();
    for word in [VERSION, BLOCK_LEN, nodes.len() as u64] {
        put64(&mut out, word);
    }
    for (place, ((node, _), _)) in nodes.iter().enumerate() {
        let bit_count = place + 1;
        put64(&mut out, u64::from(*node));
        put64(&mut out, bit_count as u64);
        put64(&mut out, bit_count as u64);
        for word in 0..bit_count.div_ceil(64) {
            let is_here = place / 64 == word;
            put64(&mut out, if is_here { 1 << (place % 64) } else { 0 });
        }
    }
    out
}

/// The CPUs of each group, as lists in the kernel's form, by group.
fn groups(cpus: &[CpuInfo], group: fn(&CpuInfo) -> (u32, u32)) -> Vec<((u32, u32), String)> {
    let mut by_group: std::collections::BTreeMap<(u32, u32), Vec<usize>> = Default::default();
    for (number, cpu) in cpus.iter().enumerate() {
        by_group.entry(group(cpu)).or_default().push(number);
    }
    by_group
        .into_iter()
        .map(|(group, members)| (group, cpu_list(&members)))
        .collect()
}

/// `0-3,8` for ascending numbers.
fn cpu_list(numbers: &[usize]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = numbers;
    while let Some(&first) = rest.first() {
        let run = rest
            .iter()
            .zip(first..)
            .take_while(|(number, next)| **number == *next)
            .count();
        parts.push(match run {
            1 => first.to_string(),
            _ => format!("{first}-{}", first + run - 1),
        });
        rest = &rest[run..];
    }
    parts.join(",")
}

/// A call chain: the instruction and its callers, marked where the kernel's and the program's begin.
fn put_chain(out: &mut Vec<u8>, sample: &Sample, callers: &[u64]) {
    let len_at = out.len();
    put64(out, 0);
    let mut mode = None;
    for addr in [sample.ip].iter().chain(callers) {
        let own = CpuMode::of_code(*addr);
        if mode.replace(own) != Some(own) {
            put64(
                out,
                match own {
                    CpuMode::Kernel => context::KERNEL,
                    _ => context::USER,
                },
            );
        }
        put64(out, *addr);
    }
    let words = (out.len() - len_at) / 8 - 1;
    out[len_at..len_at + 8].copy_from_slice(&(words as u64).to_le_bytes());
}

fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// A string of a record: ends with a zero and fills whole words.
fn put_padded(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.resize(
        out.len() - text.len() + (text.len() + 1).next_multiple_of(8),
        0,
    );
}

/// A string of a feature section: its length in bytes, zeros included, and the bytes.
fn put_string(out: &mut Vec<u8>, text: &str) {
    let len = (text.len() + 1).next_multiple_of(64);
    put32(out, len as u32);
    out.extend_from_slice(text.as_bytes());
    out.resize(out.len() - text.len() + len, 0);
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn lists_of_cpus_are_written_as_the_kernel_does() {
        assert_eq!(cpu_list(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(cpu_list(&[]), "");
    }

    #[test]
    fn sections_lie_where_the_header_says() {
        let form = SampleForm {
            period: 1,
            has_callers: true,
        };
        let mut writer = PerfDataWriter::new(Cursor::new(Vec::new()), form).unwrap();
        writer
            .comm(Moment::default(), "a name that is far too long", true)
            .unwrap();
        let callers = [0x40, u64::MAX << 40];
        writer
            .sample(EventKind::Loads, &Sample::default(), &callers)
            .unwrap();
        let file = writer.finish(&FileInfo::default()).unwrap().into_inner();
        let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
        let (data, data_len) = (word(40), word(48));
        assert_eq!(data, DATA_OFFSET);
        // A chain of three addresses, two marks among them, and its length.
        let lens = [8 + 8 + 16 + SAMPLE_ID_LEN, 8 + 72 + 8 * 6];
        assert_eq!(data_len, lens.iter().sum());
        let features = word(72).count_ones() as usize;
        let last = data + data_len + 16 * (features - 1);
        assert_eq!(word(last) + word(last + 8), file.len());
    }
}
