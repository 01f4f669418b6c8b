//! What is left when a recording was killed: its ring and its file.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::ExitStatus;

use hitm_trace::ring::{RingConfig, RingSnapshot, SlotState};
use hitm_trace::{BlockMeta, ChunkDecoder, EndReason, Record, TraceReader};

/// The memory of a ring, which outlives its processes.
pub(super) struct RingMemory {
    pub(super) file: File,
    pub(super) offset: u64,
}

impl RingMemory {
    pub(super) fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; RingConfig::DEFAULT.memory_len()];
        let read = self.file.read_exact_at(&mut bytes, self.offset);
        read.expect("the ring lies in the memory");
        bytes
    }
}

/// What reads back.
pub(super) struct RecordedFile {
    /// The blocks that came through the ring.
    pub(super) blocks: Vec<(BlockMeta, Vec<u8>)>,
    pub(super) access_count: u64,
    /// How the recording ended, if the file says so.
    pub(super) end: Option<EndReason>,
    /// Whether the file lacks its end, and what it has of a chunk that is not whole.
    pub(super) is_cut: bool,
    pub(super) torn_bytes: u64,
}

impl RecordedFile {
    pub(super) fn read(path: &Path) -> RecordedFile {
        let file = File::open(path).expect("the recording is there");
        let mut reader = TraceReader::new(file).expect("its header is whole");
        let mut decoder = ChunkDecoder::new().expect("zstd works");
        let (mut blocks, mut access_count, mut end) = (Vec::new(), 0, None);
        while let Some(block) = reader
            .next_block(&mut decoder)
            .expect("damage is at the end")
        {
            for record in block.records() {
                match record.expect("what was committed decodes") {
                    Record::Access { .. } => access_count += 1,
                    Record::End(found) => end = Some(found.reason),
                    _ => {}
                }
            }
            blocks.push((block.meta(), block.bytes().to_vec()));
        }
        let recovery = reader.recovery();
        RecordedFile {
            blocks,
            access_count,
            end,
            is_cut: !recovery.is_complete(),
            torn_bytes: recovery.missing_bytes,
        }
    }

    /// A killed program's recorder finishes the file: its own last words are no block of the ring.
    pub(super) fn check_end(&mut self, status: ExitStatus) {
        let signal = libc::SIGKILL;
        match status.code() {
            Some(137) => assert_eq!(self.end, Some(EndReason::Signalled { signal })),
            // It had no program yet.
            code => assert_eq!((code, self.end), (Some(2), None)),
        }
        if self.end.is_some() {
            self.blocks.pop();
        }
        assert_eq!(self.torn_bytes, 0);
    }
}

/// Where the records of a recording went.
#[derive(Debug, Default)]
pub(super) struct Fate {
    pub(super) read_back: u64,
    /// Committed, and not taken.
    pub(super) in_ring: u64,
    /// Taken, and not in the file.
    pub(super) lost: u64,
    pub(super) lost_blocks: u64,
}

impl Fate {
    pub(super) fn of(ring: &RingSnapshot<'_>, file: &RecordedFile) -> Fate {
        let mut fate = Fate::default();
        for (meta, _) in &file.blocks {
            fate.read_back += u64::from(meta.record_count);
        }
        let written = file.blocks.len() as u64;
        let slot_count = u64::from(ring.config().slot_count);
        for block in written..written + slot_count {
            let slot = ring.slot(block);
            let records = u64::from(slot.meta.record_count);
            let before = block
                .checked_sub(slot_count)
                .map(|old| &file.blocks[old as usize]);
            let is_old = before.is_some_and(|(_, bytes)| slot.bytes == &bytes[..]);
            match slot.state {
                SlotState::Free if records == 0 || is_old => {}
                SlotState::Free => {
                    fate.lost += records;
                    fate.lost_blocks += 1;
                }
                SlotState::Filling | SlotState::Full => fate.in_ring += records,
            }
        }
        fate.check_order(ring, written);
        fate
    }

    /// Slots are taken and filled in their order: first those of blocks that were lost, then those that
    /// wait, then those that are free.
    fn check_order(&self, ring: &RingSnapshot<'_>, written: u64) {
        let slot_count = u64::from(ring.config().slot_count);
        let slots = (written..written + slot_count).map(|block| ring.slot(block));
        let states: Vec<SlotState> = slots.map(|slot| slot.state).collect();
        let waiting = states.iter().skip(self.lost_blocks as usize);
        let behind = waiting.skip_while(|state| **state == SlotState::Full);
        let behind = behind.skip_while(|state| **state == SlotState::Filling);
        assert!(
            behind.into_iter().all(|state| *state == SlotState::Free),
            "{states:?}"
        );
    }
}
