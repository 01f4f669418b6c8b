//! The word for those that contend.

use hitm_base::grouped;

/// Those that contend: what a recording has as threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Who {
    /// Threads of a program.
    #[default]
    Threads,
    /// Processes of one thread each.
    Processes,
    /// CPUs of a recorded machine.
    Cpus,
}

impl Who {
    /// The word for several of them.
    pub const fn word(self) -> &'static str {
        match self {
            Who::Threads => "threads",
            Who::Processes => "processes",
            Who::Cpus => "CPUs",
        }
    }

    /// So many of them: `1 process`, `12 CPUs`.
    pub fn counted(self, count: u64) -> String {
        match (count, self) {
            (1, Who::Threads) => "1 thread".to_owned(),
            (1, Who::Processes) => "1 process".to_owned(),
            (1, Who::Cpus) => "1 CPU".to_owned(),
            _ => format!("{} {}", grouped(count), self.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_told_from_several() {
        assert_eq!(Who::Processes.counted(1), "1 process");
        assert_eq!(Who::Processes.counted(5), "5 processes");
        assert_eq!(Who::Cpus.counted(1_000), "1,000 CPUs");
        assert_eq!(Who::default().counted(2), "2 threads");
    }
}
