//! CPUs of the modelled machine, as programs ask for them.

use hitm_base::CpuId;

use super::{Session, Speaker};
use crate::board::{Answer, Message, Request};
use crate::{Pinned, Slot};

/// Words of a mask in one answer.
const ANSWER_WORDS: usize = 4;

impl Session {
    /// Pins a thread, or tells on which CPUs it may run.
    pub(super) fn serve_affinity(&mut self, speaker: Speaker, message: &Message<'_>) {
        let Speaker { slot, channel } = speaker;
        let [tid, word, ..] = message.args;
        let answer = match message.request {
            Request::Pin => self.pin(slot, tid as u32, message.bytes),
            _ => self.words_of_mask(slot, tid as u32, word as usize),
        };
        self.answer(channel, &answer);
    }

    fn pin(&mut self, slot: Slot, tid: u32, bytes: &[u8]) -> Answer {
        let cpus = bytes.chunks_exact(2);
        let cpus = cpus.map(|cpu| CpuId(u16::from_le_bytes([cpu[0], cpu[1]])));
        let cpus: Vec<CpuId> = cpus.collect();
        let outcome = match self.group.pin(slot, tid, &cpus) {
            Pinned::Done => 0,
            Pinned::NoCpu => 1,
            Pinned::UnknownThread => 2,
        };
        [outcome, self.group.cpu(slot).0.into(), 0, 0, 0]
    }

    fn words_of_mask(&self, slot: Slot, tid: u32, first: usize) -> Answer {
        let Some(mask) = self.group.affinity(slot, tid) else {
            return [2, 0, 0, 0, 0];
        };
        let mut answer = [0; 1 + ANSWER_WORDS];
        for cpu in mask {
            let word = (cpu.index() / 64).checked_sub(first);
            if let Some(word) = word.filter(|word| *word < ANSWER_WORDS) {
                answer[1 + word] |= 1 << (cpu.index() % 64);
            }
        }
        answer
    }
}
