//! CPUs on which the threads of a workload begin.

use hitm_base::CpuId;

use crate::engine::Random;

/// CPUs in random order, each once before any comes again, as a kernel spreads new threads.
#[derive(Debug, Default)]
pub(super) struct CpuDeck(Vec<usize>);

impl CpuDeck {
    /// The next of `cpu_count` CPUs.
    pub(super) fn draw(&mut self, cpu_count: usize, random: &mut Random) -> CpuId {
        if self.0.is_empty() {
            self.0 = random.permutation(cpu_count);
        }
        CpuId(self.0.pop().unwrap_or(0) as u16)
    }
}
