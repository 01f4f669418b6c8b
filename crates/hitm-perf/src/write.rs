//! Writes a perf.data file that stock perf opens as a c2c recording.
//!
//! The two events have the names by which perf knows a c2c recording, and one sample type. The file
//! is little-endian and written from front to back. Only the header is written again at the end,
//! with the length of the data. Memory does not grow with the samples.
//!
//! ```text
//! header | ids | attributes | records ... | table of feature sections | feature sections
//! ```

mod attr;
mod features;
mod put;

use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};

use crate::format::{context, misc, record};
use crate::text::cut;
use crate::{CpuMode, EventKind, Sample};

use attr::{ATTRS, DATA_OFFSET, head};
pub use attr::{LOADS_NAME, STORES_NAME, SampleForm};
use features::features;
pub use features::{CpuInfo, FileInfo};
use put::{put_padded, put32, put64};

/// Length of the `sample_id` at the end of every other record: ids of process and thread, time,
/// CPU, identifier.
const SAMPLE_ID_LEN: usize = 32;

/// A mapping as perf writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MmapInfo {
    /// Process.
    pub pid: u32,
    /// Earlier owners of this number.
    pub life: u16,
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Offset in the file.
    pub file_offset: u64,
    /// Holds code.
    pub executable: bool,
    /// Path of the file, or a name in brackets.
    pub path: String,
    /// Build id, empty when unknown.
    pub build_id: Vec<u8>,
}

/// Time and place of a record: the `sample_id` at its end.
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

/// Writes a perf.data file.
#[derive(Debug)]
pub struct PerfDataWriter<W> {
    writer: W,
    /// Bytes of records so far.
    data_len: u64,
    buffer: Vec<u8>,
    form: SampleForm,
    /// Files that were mapped, in order; the place is the inode that perf tells them apart by.
    files: Vec<(String, Vec<u8>)>,
    /// The inodes, by path.
    inodes: BTreeMap<String, u64>,
    first_time_ns: u64,
    last_time_ns: u64,
    cut_chain_count: u64,
}

impl<W: Write + Seek> PerfDataWriter<W> {
    /// Writes the header and the attributes.
    pub fn new(mut writer: W, form: SampleForm) -> io::Result<PerfDataWriter<W>> {
        writer.write_all(&head(0, &[], form))?;
        Ok(PerfDataWriter {
            writer,
            data_len: 0,
            buffer: Vec::new(),
            form,
            files: Vec::new(),
            inodes: BTreeMap::new(),
            first_time_ns: u64::MAX,
            last_time_ns: 0,
            cut_chain_count: 0,
        })
    }

    /// Writes a sample of one of the two events. Callers, innermost first, are written when the
    /// file's samples have call chains.
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
            let is_whole = put_chain(out, sample, callers);
            self.cut_chain_count += u64::from(!is_whole);
        }
        put64(out, sample.weight);
        put64(out, sample.data_src.0);
        self.end()
    }

    /// Writes a thread's name.
    pub fn comm(&mut self, at: Moment, name: &str, is_exec: bool) -> io::Result<()> {
        let misc = if is_exec { misc::COMM_EXEC } else { 0 };
        self.begin(record::COMM, misc | misc::USER);
        put32(&mut self.buffer, at.pid);
        put32(&mut self.buffer, at.tid);
        // TASK_COMM_LEN: the kernel keeps 15 bytes of a name.
        put_padded(&mut self.buffer, cut(name, 15));
        self.end_with_id(at)
    }

    /// Writes that thread `parent_tid` of the process started thread `at.tid`.
    pub fn fork(&mut self, at: Moment, parent_tid: u32) -> io::Result<()> {
        self.fork_or_exit(record::FORK, at, [at.pid, parent_tid])
    }

    /// Writes that a process began that inherits no mappings.
    pub fn fork_process(&mut self, at: Moment) -> io::Result<()> {
        self.fork_or_exit(record::FORK, at, [0, 0])
    }

    /// Writes that a thread ended.
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

    /// Writes a mapping.
    pub fn mmap(&mut self, at: Moment, mapping: &MmapInfo) -> io::Result<()> {
        let is_data = match mapping.executable {
            true => 0,
            false => misc::MMAP_DATA,
        };
        let inode = self.inode(mapping);
        self.begin(record::MMAP2, is_data | misc::USER);
        let out = &mut self.buffer;
        put32(out, mapping.pid);
        put32(out, at.tid);
        let len = mapping.end.saturating_sub(mapping.start);
        for word in [mapping.start, len, mapping.file_offset] {
            put64(out, word);
        }
        // Device 0:0 and inode 0 mean memory without a file.
        put32(out, 0);
        put32(out, u32::from(inode != 0));
        put64(out, inode);
        put64(out, 0);
        const PROT_READ: u32 = 1;
        const PROT_WRITE: u32 = 2;
        const PROT_EXEC: u32 = 4;
        const MAP_PRIVATE: u32 = 2;
        let use_of = match mapping.executable {
            true => PROT_EXEC,
            false => PROT_WRITE,
        };
        put32(out, PROT_READ | use_of);
        put32(out, MAP_PRIVATE);
        put_padded(out, cut(&mapping.path, usize::from(u16::MAX) - 256));
        self.end_with_id(at)
    }

    /// Inode by which perf tells files apart, 0 for memory without a file.
    fn inode(&mut self, mapping: &MmapInfo) -> u64 {
        if !mapping.path.starts_with('/') || mapping.path.starts_with("//") {
            return 0;
        }
        if let Some(inode) = self.inodes.get(&mapping.path) {
            return *inode;
        }
        self.files
            .push((mapping.path.clone(), mapping.build_id.clone()));
        let inode = self.files.len() as u64;
        self.inodes.insert(mapping.path.clone(), inode);
        inode
    }

    /// Samples whose call chains were too long for a record.
    pub fn cut_chain_count(&self) -> u64 {
        self.cut_chain_count
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

/// Most words of a chain: a record's length has 16 bits, and the sample's other fields take less
/// than 256 bytes.
const CHAIN_WORDS_MAX: usize = (u16::MAX as usize - 256) / 8;

/// Writes a call chain: the instruction and its callers, with marks where the kernel's and the
/// program's begin. Leaves out the outermost callers when a record cannot hold them; returns true
/// if it holds all.
fn put_chain(out: &mut Vec<u8>, sample: &Sample, callers: &[u64]) -> bool {
    let len_at = out.len();
    put64(out, 0);
    let mut mode = None;
    let mut is_whole = true;
    for addr in [sample.ip].iter().chain(callers) {
        // An address takes a word, and another one for a mark.
        if (out.len() - len_at) / 8 + 2 > CHAIN_WORDS_MAX {
            is_whole = false;
            break;
        }
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
    is_whole
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Addresses in turn of the kernel and the program, each with its mark: the longest chain of a
    /// recording needs more than a record has.
    #[test]
    fn a_chain_is_cut_to_fit_a_record() {
        let form = SampleForm {
            period: 1,
            has_callers: true,
        };
        let mut writer = PerfDataWriter::new(Cursor::new(Vec::new()), form).unwrap();
        let callers: Vec<u64> = (0..8000).map(|index| (index % 2) << 63 | 0x40).collect();
        writer
            .sample(EventKind::Loads, &Sample::default(), &callers)
            .unwrap();
        assert_eq!(writer.cut_chain_count(), 1);
        assert!(writer.data_len > 65_000 && writer.data_len <= u64::from(u16::MAX));
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
        assert_eq!(data_len, lens.iter().sum::<usize>());
        let features = word(72).count_ones() as usize;
        let last = data + data_len + 16 * (features - 1);
        assert_eq!(word(last) + word(last + 8), file.len());
    }
}
