//! Remains of a killed recording: its ring and its file.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use hitm_trace::ring::{RingConfig, RingSnapshot, SlotState};
use hitm_trace::{BlockMeta, ChunkDecoder, EndReason, Record, TraceReader};

/// The memory of a ring, which outlives its processes.
pub(super) struct RingMemory {
    pub(super) file: File,
    pub(super) offset: u64,
}

impl RingMemory {
    pub(super) fn read(&self) -> Vec<u8> {
        self.read_first(RingConfig::DEFAULT.memory_len())
    }

    fn read_first(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let read = self.file.read_exact_at(&mut bytes, self.offset);
        read.expect("the ring lies in the memory");
        bytes
    }

    /// Waits until the recorder takes a block, which it then has and the file has not.
    pub(super) fn wait_for_take(&self, patience: Duration) {
        let started = Instant::now();
        let mut was_full = Vec::new();
        while started.elapsed() < patience {
            let bytes = self.read_first(RingConfig::DEFAULT.headers_len());
            let ring = RingSnapshot::parse(&bytes).expect("the recorder made a ring");
            let slots = 0..u64::from(ring.config().slot_count);
            let states = slots.map(|block| ring.slot(block).state);
            let is_full: Vec<bool> = states.map(|state| state == SlotState::Full).collect();
            if was_full.iter().zip(&is_full).any(|(was, is)| *was && !is) {
                return;
            }
            was_full = is_full;
        }
    }
}

/// Contents of a file that was cut off.
#[derive(Default)]
pub(super) struct RecordedFile {
    /// Set if the former recording still has the name.
    pub(super) is_former: bool,
    /// The blocks that came through the ring.
    pub(super) blocks: Vec<(BlockMeta, Vec<u8>)>,
    pub(super) access_count: u64,
    /// The end of the recording, if the file says so.
    pub(super) end: Option<EndReason>,
    /// Set if the file lacks its end, and what it has of a chunk that is not whole.
    pub(super) is_cut: bool,
    pub(super) torn_bytes: u64,
}

impl RecordedFile {
    pub(super) fn read(path: &Path, former: &[u8]) -> RecordedFile {
        let mut file = File::open(path).expect("the recording is there");
        let mut head = Vec::new();
        let head_len = former.len() as u64 + 1;
        let read = file.by_ref().take(head_len).read_to_end(&mut head);
        read.expect("the recording is readable");
        if head == former {
            return RecordedFile {
                is_former: true,
                ..RecordedFile::default()
            };
        }
        file.rewind().expect("it is a file");
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
            is_former: false,
            blocks,
            access_count,
            end,
            is_cut: !recovery.is_complete(),
            torn_bytes: recovery.missing_bytes,
        }
    }

    /// Records of the blocks that came through the ring.
    pub(super) fn record_count(&self) -> u64 {
        let counts = self.blocks.iter().map(|(meta, _)| meta.record_count);
        counts.map(u64::from).sum()
    }

    /// A killed program's recorder finishes the file; how it ended is in the ring's last block.
    pub(super) fn check_end(&self, status: ExitStatus) {
        let signal = libc::SIGKILL;
        let killed = Some(EndReason::Signalled { signal });
        match status.code() {
            Some(137) => assert_eq!(self.end, killed),
            // It had no program yet, and may have known that it was killed.
            code => assert!(
                code == Some(2) && (self.end.is_none() || self.end == killed),
                "{code:?} {:?}",
                self.end
            ),
        }
        assert_eq!(self.torn_bytes, 0);
    }
}

/// Whereabouts of the blocks of a recording.
#[derive(Debug, Default)]
pub(super) struct Fate {
    pub(super) read_back: u64,
    /// Committed, and not taken. The last one may not be full.
    pub(super) in_ring: u64,
    /// Taken, and not in the file.
    pub(super) lost: u64,
}

impl Fate {
    pub(super) fn of(ring: &RingSnapshot<'_>, file: &RecordedFile) -> Fate {
        let written = file.blocks.len() as u64;
        let mut fate = Fate {
            read_back: written,
            ..Fate::default()
        };
        let slot_count = u64::from(ring.config().slot_count);
        // In a full ring the slot of a block that was taken is filled again at once: with times that
        // come after those of the next slot.
        let [first, second] = [written, written + 1].map(|block| ring.slot(block));
        let are_used = [first, second]
            .iter()
            .all(|slot| slot.meta.record_count > 0);
        let is_refilled = first.state != SlotState::Free
            && second.state == SlotState::Full
            && are_used
            && first.meta.first_time > second.meta.first_time;
        if is_refilled {
            fate.lost += 1;
        }
        for block in written..written + slot_count {
            let slot = ring.slot(block);
            let before = block.checked_sub(slot_count);
            let before = before.map(|old| &file.blocks[old as usize].1);
            let is_old = before.is_some_and(|bytes| slot.bytes == &bytes[..]);
            match slot.state {
                _ if slot.meta.record_count == 0 => {}
                SlotState::Free if is_old => {}
                SlotState::Free => fate.lost += 1,
                SlotState::Filling | SlotState::Full => fate.in_ring += 1,
            }
        }
        fate
    }
}
