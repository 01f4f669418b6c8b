//! The rows of a line, and who called their code.

use hitm_base::{AccessOp, CodeAddr};
use hitm_fields::fields;

use super::op_text;
use super::who::Who;

fields! {
    /// One instruction's accesses to one place in a line, by one thread or by several.
    #[derive(Debug, Clone, PartialEq)]
    pub struct RowReport in row {
        /// Offset in the line.
        pub offset: u8 => offset "off";
        /// Bytes accessed.
        pub size_bytes: u8 => recorded bytes "size";
        /// Object and member, null when unknown.
        pub member: String => known name "member";
        /// load, store or locked.
        pub op: AccessOp => label "op", |row| op_text(row.op);
        /// Names of the threads, the first four when there are more.
        pub threads: Vec<String> => words "thread";
        /// Threads folded into this row.
        pub thread_count: u64 => count "threads";
        /// The instruction.
        pub code: CodeAddr;
        /// Address of the instruction.
        code_address => address "code", |row| row.code.0;
        /// Function of the instruction, null when unknown.
        pub function: String => known name "function";
        /// Source file and line of the instruction, null when unknown.
        pub source: String => known name "source";
        /// Part of the line's remote HITM.
        pub remote_hitm_share: f64 => share "rmt";
        /// Part of the line's local HITM.
        pub local_hitm_share: f64 => share "lcl";
        /// Part of the line's store hits.
        pub store_hit_share: f64 => share "hit";
        /// Part of the line's store misses.
        pub store_miss_share: f64 => share "miss";
        /// Mean latency of the remote HITMs.
        pub remote_hitm_cycles_mean: Option<f64> => cycles "rmt cyc";
        /// Mean latency of the local HITMs.
        pub local_hitm_cycles_mean: Option<f64> => cycles "lcl cyc";
        /// Mean latency of all loads or locked operations, hits included; null for stores.
        pub load_cycles_mean: Option<f64> => cycles "load cyc";
        /// Cycles lost to other CPUs' use of the line.
        pub lost_cycles: u64 => recorded cycles "lost cycles";
        /// lost_cycles as a part of the line's.
        pub lost_share: f64 => share "lost";
        /// Accesses.
        pub access_count: u64 => count "accesses";
        /// Modelled CPUs that the accesses came from.
        pub cpu_count: u64 => count "CPUs";
        /// Modelled NUMA nodes of these CPUs.
        pub nodes: Vec<u16> => number "nodes";
        /// The same without directories.
        pub source_short: String;
        /// Call paths to the function, hottest first, where accesses have call chains.
        pub call_paths: Vec<CallPath>;
        /// Number of paths, those that are not in `call_paths` included.
        pub call_path_count: u64;
    }
}

fields! {
    /// Accesses of a row whose function was called through the same functions.
    #[derive(Debug, Clone, PartialEq)]
    pub struct CallPath in call_path {
        /// Accesses whose function was called on this path.
        pub access_count: u64 => count "samples";
        /// access_count as a part of the row's.
        pub access_share: f64 => share "samples";
        /// Part of the cycles that the row lost to other CPUs' use of the line.
        pub lost_share: f64 => share "lost";
        /// The callers, innermost first, those included whose calls the compiler inlined; of calls in different places of a function, those of the hottest chain.
        pub frames: Vec<CallFrame>;
    }
}

fields! {
    /// A call.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CallFrame in call_frame {
        /// The calling function, or file and offset when it has no name.
        pub function: String => known label "function";
        /// True if the compiler put the function into the next one of the path: no call is between them.
        pub is_inlined: bool => label "inlined";
        /// Return address of the call.
        pub code: CodeAddr;
        /// Address that the call returns to; of a function that the row's own is inlined in, the row's.
        code_address => address "code", |frame| frame.code.0;
        /// Source file and line of the call, null when unknown.
        pub source: String => known label "source";
    }
}

impl RowReport {
    /// Threads of a row that are named at most; the others are counted.
    pub const THREADS_NAMED_MAX: usize = 4;

    /// The threads for people: a name, or how many there are of them.
    pub fn threads_text(&self, who: Who) -> String {
        match self.threads.as_slice() {
            [one] if self.thread_count == 1 => one.clone(),
            _ => who.counted(self.thread_count),
        }
    }
}
