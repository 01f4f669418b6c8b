//! Code in which threads are seen: their programs', and the kernel's.

use hitm_live::lines::{Seen, is_kernels};

use super::super::programs::{Programs, SeenAccess};
use super::kernel::LiveKernel;

/// All code that is looked at.
pub(super) struct Code {
    pub(super) programs: Programs,
    /// None when it is not looked at.
    pub(super) kernel: Option<LiveKernel>,
}

impl Code {
    /// Accesses for which it may stand that a thread was seen at an instruction.
    pub(super) fn accesses(&mut self, seen: &Seen) -> Vec<SeenAccess> {
        match &mut self.kernel {
            Some(kernel) if is_kernels(seen.code) => kernel.accesses(seen),
            _ => self.programs.accesses(seen),
        }
    }
}
