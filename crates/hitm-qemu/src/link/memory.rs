//! Places of everything in memory: mappings, stacks, heap blocks, and memory that processes share.

use std::sync::atomic::Ordering;

use hitm_base::{AddrRange, CodeAddr};
use hitm_trace::{HeapObject, Mapping, PROCESS_SHIFT, Record};
use hitm_weave::board::{Answer, Request};

use super::Link;
use crate::mappings;
use crate::shared::Kind;
use crate::vcpu::Vcpu;

impl Link {
    /// An address of this process's memory as recordings know it.
    pub(crate) fn data_addr(&self, addr: u64) -> u64 {
        if let Some(shared) = self.first_touch.shared_addr(addr) {
            return shared;
        }
        addr | u64::from(self.process()) << PROCESS_SHIFT
    }

    /// An address of this process's code as recordings know it.
    pub(crate) fn code_addr(&self, addr: u64) -> CodeAddr {
        CodeAddr(addr | u64::from(self.image.load(Ordering::Relaxed)) << PROCESS_SHIFT)
    }

    /// Writes mappings: of this process's data, and of its code where that is new.
    pub(crate) fn record_mappings(&self, vcpu: &Vcpu, mappings: &[Mapping], has_code: bool) {
        let image = self.image.load(Ordering::Relaxed);
        let process = self.process();
        let at = |mapping: &Mapping, number: u32| {
            let upper = u64::from(number) << PROCESS_SHIFT;
            let range = mapping.range;
            let range = AddrRange::new(range.start() | upper, range.end() | upper)?;
            Some(Record::Mapping(Mapping {
                range,
                ..mapping.clone()
            }))
        };
        let mut records: Vec<Record> = mappings.iter().filter_map(|one| at(one, process)).collect();
        if has_code && image != process {
            let code = mappings.iter().filter(|mapping| mapping.executable);
            records.extend(code.filter_map(|one| at(one, image)));
        }
        self.record(vcpu, &records);
    }

    /// The new thread `tid` has this stack.
    pub(crate) fn register_stack(&self, vcpu: &Vcpu, tid: u32, stack: AddrRange) {
        let range = [stack.start(), stack.end()].map(|addr| self.data_addr(addr));
        self.say(vcpu, Request::Stack, &[tid.into(), range[0], range[1]], &[]);
    }

    /// Finds out what lies behind a mapping at `addr`, and shares its lines with other processes that
    /// have it; true if there is such memory.
    pub(crate) fn register_shared(&self, vcpu: &Vcpu, addr: u64) -> bool {
        let Some(mapping) = mappings::shared_at(addr) else {
            return false;
        };
        let Some(kind) = Kind::of(&mapping) else {
            return false;
        };
        let args = [mapping.device, mapping.inode, kind as u64];
        let answer = self.ask(vcpu, Request::Object, &args, mapping.path.as_bytes());
        let is_number = |answer: &Answer| (1..u64::MAX).contains(&answer[0]);
        let Some([number, ..]) = answer.filter(is_number) else {
            return false;
        };
        let base = (number << PROCESS_SHIFT) + mapping.offset;
        self.first_touch.share(mapping.range, base);
        if let Some(range) = AddrRange::with_len(base, mapping.range.len()) {
            let record = Record::Mapping(Mapping {
                range,
                file_offset: mapping.offset,
                path: mapping.path,
                build_id: Vec::new(),
                executable: false,
            });
            self.record(vcpu, &[record]);
        }
        true
    }

    /// The shared memory that begins at `addr` is gone.
    pub(crate) fn unshare_from(&self, addr: u64) {
        if let Some(range) = self.first_touch.shared_from(addr) {
            self.first_touch.unshare(range);
        }
    }

    /// The memory of `range` is gone or another one.
    pub(crate) fn unshare(&self, range: AddrRange) {
        self.first_touch.unshare(range);
    }

    /// Tells of the heap blocks on the lines that the thread took over.
    pub(super) fn say_blocks(&self, vcpu: &Vcpu) {
        let lines = vcpu.taken.iter().map(|taken| taken.line);
        let blocks = lines.flat_map(|line| self.heap.objects_on(line));
        let records: Vec<Record> = blocks.filter_map(|block| self.block(block)).collect();
        if !records.is_empty() {
            self.record(vcpu, &records);
        }
    }

    /// A heap block as recordings know it.
    pub(crate) fn block(&self, block: HeapObject) -> Option<Record> {
        let range = block.range;
        let range = AddrRange::with_len(self.data_addr(range.start()), range.len())?;
        let code = |addr: &CodeAddr| self.code_addr(addr.0);
        Some(Record::HeapObject(HeapObject {
            range,
            stack: block.stack.iter().map(code).collect(),
            told_type: block.told_type.map(|at| self.code_addr(at).0),
            ..block
        }))
    }
}
