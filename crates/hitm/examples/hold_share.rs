//! The hold share u of one lock of a recorded kernel, from every recorded acquisition; `hitm live
//! locks` estimates it from samples.
//!
//! usage: hold_share RECORDING LINE OFFSET
//!
//! LINE and OFFSET are the lock's word as `hitm report` shows it: 0xffff888040bd18c0 0x18.
//!
//! A CPU's acquisition is its last locked operation on the word before it releases the lock. Its
//! wait begins with the first one after its previous release. The time between a release and that
//! is the CPU's work outside the lock. A time over LONG times the median of its kind includes
//! something else, such as another task; such times are counted and left out.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use hitm_base::{Access, AccessOp, CodeAddr, CpuId, LineAddr, Outcome};
use hitm_recording::Recording;
use hitm_trace::{Record, TraceReader, Visitor};

/// Limit on a time, in medians; longer ones are left out.
const LONG: u64 = 20;

/// Functions that release a lock.
const RELEASES: [&str; 3] = ["up_write", "unlock", "up_read"];

struct Uses {
    line: LineAddr,
    word: u64,
    /// Writes to the word, in the order of each CPU.
    writes: Vec<Access>,
}

impl Visitor for Uses {
    fn access(&mut self, access: &Access, _: &Outcome) {
        if access.line() == self.line && access.addr == self.word && access.op.is_write() {
            self.writes.push(*access);
        }
    }

    fn record(&mut self, _: Record) {}
}

/// A CPU's use of the lock, from one release to the next.
#[derive(Default)]
struct Turn {
    released: Option<u64>,
    asked: Option<u64>,
    taken: Option<u64>,
}

/// Times in cycles, of all CPUs.
#[derive(Default)]
struct Times {
    held: Vec<u64>,
    waited: Vec<u64>,
    outside: Vec<u64>,
}

impl Times {
    fn of(writes: &[Access], is_release: &dyn Fn(CodeAddr) -> bool) -> Times {
        let mut times = Times::default();
        let mut turns: BTreeMap<CpuId, Turn> = BTreeMap::new();
        for access in writes {
            let turn = turns.entry(access.cpu).or_default();
            let now = access.time.0;
            if is_release(access.code) {
                if let (Some(asked), Some(taken)) = (turn.asked, turn.taken) {
                    times.held.push(now - taken);
                    times.waited.push(taken - asked);
                    let outside = turn.released.map(|released| asked - released);
                    times.outside.extend(outside);
                }
                *turn = Turn {
                    released: Some(now),
                    ..Turn::default()
                };
            } else if access.op == AccessOp::LockedRmw {
                turn.asked.get_or_insert(now);
                turn.taken = Some(now);
            }
        }
        times
    }
}

/// Sum of the times within the limit, and the number of longer ones.
fn sum(mut times: Vec<u64>) -> (u64, usize) {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or(0);
    let short = times.partition_point(|&time| time <= LONG * median);
    (times[..short].iter().sum(), times.len() - short)
}

fn hex(text: &str) -> Result<u64, Box<dyn Error>> {
    Ok(u64::from_str_radix(text.trim_start_matches("0x"), 16)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, line, offset] = &arguments[..] else {
        return Err("usage: hold_share RECORDING LINE OFFSET".into());
    };
    let word = hex(line)? + hex(offset)?;
    let mut uses = Uses {
        line: LineAddr::of(word),
        word,
        writes: Vec::new(),
    };
    TraceReader::new(BufReader::new(File::open(path)?))?.visit(&mut uses)?;
    let recording = Recording::load_contended(Path::new(path), &mut |_, _| {})?;
    let names = recording.names();
    let mut releases: BTreeMap<CodeAddr, bool> = BTreeMap::new();
    for access in &uses.writes {
        releases.entry(access.code).or_insert_with(|| {
            let function = names.code(access.code).function;
            RELEASES.iter().any(|name| function.contains(name))
        });
    }
    let times = Times::of(&uses.writes, &|code| releases[&code]);
    let count = times.held.len();
    let waits = times.waited.iter().filter(|&&time| time > 0).count();
    let waited: u64 = times.waited.iter().sum();
    let (held, held_long) = sum(times.held);
    let (outside, outside_long) = sum(times.outside);
    println!(
        "{count} acquisitions, {waits} waited; held {held}, waited {waited}, outside {outside} cycles \
         ({held_long} and {outside_long} left out)"
    );
    println!(
        "u {:.1} %",
        100.0 * held as f64 / (held + outside).max(1) as f64
    );
    Ok(())
}
