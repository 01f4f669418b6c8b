//! One sample of a memory access, whatever file it is from.

use crate::{DataSrc, Lives, TaskId};

/// Privilege level and virtualization of the sampled code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum CpuMode {
    /// Not in the record.
    #[default]
    Unknown = 0,
    /// The kernel.
    Kernel = 1,
    /// A program.
    User = 2,
    /// A hypervisor.
    Hypervisor = 3,
    /// The kernel of a guest.
    GuestKernel = 4,
    /// A program of a guest.
    GuestUser = 5,
}

impl CpuMode {
    /// The mode that an instruction's address implies on 64-bit Linux.
    pub fn of_code(ip: u64) -> CpuMode {
        match ip >> 63 {
            1 => CpuMode::Kernel,
            _ => CpuMode::User,
        }
    }

    /// The mode in a record's `misc`.
    pub fn of_misc(misc: u16) -> CpuMode {
        match misc & 7 {
            1 => CpuMode::Kernel,
            2 => CpuMode::User,
            3 => CpuMode::Hypervisor,
            4 => CpuMode::GuestKernel,
            5 => CpuMode::GuestUser,
            _ => CpuMode::Unknown,
        }
    }
}

/// The two events of a c2c recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// `cpu/mem-loads,ldlat=30/P`: loads and locked operations.
    Loads,
    /// `cpu/mem-stores/P`: plain stores.
    Stores,
}

/// A sampled access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Earlier owners of the process's number and of the thread's, as [`Sample::with_lives`] finds
    /// them.
    pub lives: [u16; 2],
    /// CPU, `u32::MAX` when the sample does not say.
    pub cpu: u32,
    /// Mode of the sampled code.
    pub mode: CpuMode,
    /// Time, in nanoseconds of the recording's clock.
    pub time_ns: u64,
    /// Address of the instruction.
    pub ip: u64,
    /// The first byte accessed, 0 when the sample does not say.
    pub addr: u64,
    /// Operation and data source.
    pub data_src: DataSrc,
    /// Latency in cycles, as far as the CPU measures it.
    pub weight: u64,
    /// Events that this sample stands for.
    pub period: u64,
    /// The physical address, 0 when the sample does not say.
    pub phys_addr: u64,
}

impl Sample {
    /// The process with its life, as far as lives are known.
    #[inline]
    pub fn process(&self) -> TaskId {
        TaskId {
            id: self.pid,
            life: self.lives[0],
        }
    }

    /// The thread with its life, as far as lives are known.
    #[inline]
    pub fn thread(&self) -> TaskId {
        TaskId {
            id: self.tid,
            life: self.lives[1],
        }
    }

    /// Resolves reused numbers to their lives at the sample's time.
    pub fn with_lives(&self, lives: &Lives) -> Sample {
        let life = |id| lives.at(id, self.time_ns).life;
        Sample {
            lives: [life(self.pid), life(self.tid)],
            ..*self
        }
    }
}
