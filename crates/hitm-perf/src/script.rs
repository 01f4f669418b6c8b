//! The text of `perf script -F pid,tid,cpu,time,event,addr,weight,data_src,ip,sym`.
//!
//! For files that may not leave a machine in binary form. One line is one sample; the fields stand
//! in perf's own order, whatever the order behind `-F`:
//!
//! ```text
//! 4242/4243 [024]     1.000104: cpu/mem-loads,ldlat=30/P:  7f0000005930  183601808042 |OP LOAD|...|BLK  N/A   361   401370 main
//! ```
//!
//! A sample with a call chain has it in the lines behind, one call a line, the instruction first:
//!
//! ```text
//! 4242/4243 [024]     1.000104: cpu/mem-loads,ldlat=30/P:  7f0000005930  183601808042 |OP LOAD|...|BLK  N/A   361
//!             1370 touch
//!            88f0e start_thread
//! ```
//!
//! Lines that begin with `#` are perf's comments. There are no mappings: code has the names that
//! perf gave it, data has none.

use std::io::{BufRead, Read as _};

use crate::read::{CALLERS_MAX, Event, PerfData, ReadError, Visit};
use crate::{CpuMode, DataSrc, Sample};

/// The longest line that is read; C++ has long names.
const LINE_LEN_MAX: u64 = 64 << 10;
/// Names of instructions that are kept.
const NAMES_MAX: usize = 1 << 20;
/// Events that a text may have.
const EVENTS_MAX: usize = 4096;

const EXPECTED: &str =
    "the fields pid,tid,cpu,time,event,addr,weight,data_src,ip,sym of perf script";

/// Returns true if a file that begins with these bytes is such a text.
pub fn is_script(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    let mut lines = text.lines().filter(|line| !is_comment(line));
    begins_sample(lines.next().unwrap_or_default())
}

/// Returns true if a line is the first of a sample: it begins with the thread and the CPU.
fn begins_sample(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let ids = words.next().and_then(ids);
    ids.is_some() && words.next().is_some_and(|word| cpu(word).is_some())
}

fn is_comment(line: &str) -> bool {
    line.trim_start().is_empty() || line.starts_with('#')
}

/// Reads a text to its end, as [`read`](crate::read::read) does a file.
pub fn read(
    mut source: impl BufRead,
    visit: &mut Visit<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<PerfData, ReadError> {
    let mut reader = Reader {
        data: PerfData::default(),
        open: None,
        visit,
    };
    let mut bytes = Vec::new();
    let mut offset = 0;
    for number in 1u64.. {
        bytes.clear();
        let len = source
            .by_ref()
            .take(LINE_LEN_MAX)
            .read_until(b'\n', &mut bytes)?;
        if len == 0 {
            break;
        }
        let line = String::from_utf8_lossy(&bytes);
        reader.take(&line, Position { offset, number })?;
        offset += len as u64;
        if number.is_multiple_of(1 << 14) {
            progress(offset);
        }
    }
    reader.close()?;
    let mut data = reader.data;
    data.notes
        .push("read from text: there are no mappings, so that data has no names".to_owned());
    Ok(data)
}

/// Place of a line in the text.
#[derive(Debug, Clone, Copy)]
struct Position {
    offset: u64,
    number: u64,
}

impl Position {
    fn unexpected(self, line: &str) -> ReadError {
        let found: String = line.trim().chars().take(120).collect();
        let found = format!("line {}, {found:?}", self.number);
        ReadError::malformed(self.offset, "a line of perf script", found, EXPECTED)
    }
}

/// An address with the symbol that perf printed, which is empty or in brackets when perf knows none.
#[derive(Debug)]
struct Call {
    addr: u64,
    symbol: String,
}

impl Call {
    /// Reads an address and the words behind it, which may be none.
    fn read<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Call> {
        let addr = u64::from_str_radix(words.next()?, 16).ok()?;
        let symbol = words.collect::<Vec<_>>().join(" ");
        let name = symbol.split_once("+0x").map(|(name, _)| name.to_owned());
        Some(Call {
            addr,
            symbol: name.unwrap_or(symbol),
        })
    }
}

/// A sample whose call chain may follow.
struct Open {
    line: String,
    position: Position,
    event: usize,
    sample: Sample,
    has_place: bool,
    callers: Vec<u64>,
}

struct Reader<'v, 'c> {
    data: PerfData,
    open: Option<Open>,
    visit: &'v mut Visit<'c>,
}

impl Reader<'_, '_> {
    fn take(&mut self, line: &str, position: Position) -> Result<(), ReadError> {
        if is_comment(line) {
            return self.close();
        }
        if let Some(open) = &mut self.open
            && !begins_sample(line)
        {
            let call = Call::read(line.split_ascii_whitespace());
            let call = call.ok_or_else(|| position.unexpected(line))?;
            let pid = open.sample.pid;
            // Functions that were inlined have a line each, with the address of the one that they are in.
            if !call.symbol.ends_with("(inlined)") {
                self.data.unused.cut_chains += u64::from(open.call(&call));
                self.name(pid, call);
            }
            return Ok(());
        }
        self.close()?;
        let parsed = parse(line).ok_or_else(|| position.unexpected(line))?;
        let event = self.event(parsed.event, position.offset)?;
        let mut open = Open {
            line: line.to_owned(),
            position,
            event,
            sample: parsed.sample,
            has_place: false,
            callers: Vec::new(),
        };
        if let Some(call) = parsed.place {
            open.call(&call);
            self.name(open.sample.pid, call);
        }
        self.open = Some(open);
        Ok(())
    }

    /// Hands over the sample whose lines are all read.
    fn close(&mut self) -> Result<(), ReadError> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        if !open.has_place {
            return Err(open.position.unexpected(&open.line));
        }
        let event = &mut self.data.events[open.event];
        event.sample_count += 1;
        event.period_sum += 1;
        (self.visit)(open.event, &open.sample, &open.callers);
        Ok(())
    }

    /// Number of an event, by its name.
    fn event(&mut self, name: &str, offset: u64) -> Result<usize, ReadError> {
        let events = &mut self.data.events;
        match events.iter().position(|event| event.name == name) {
            Some(index) => Ok(index),
            None if events.len() >= EVENTS_MAX => {
                Err(ReadError::malformed(offset, "events", "more", EVENTS_MAX))
            }
            None => {
                events.push(Event {
                    name: name.to_owned(),
                    ..Event::default()
                });
                Ok(events.len() - 1)
            }
        }
    }

    fn name(&mut self, pid: u32, call: Call) {
        let is_known = !call.symbol.is_empty() && !call.symbol.starts_with('[');
        if is_known && self.data.code_names.len() < NAMES_MAX {
            let names = &mut self.data.code_names;
            names.entry((pid, call.addr)).or_insert(call.symbol);
        }
    }
}

impl Open {
    /// Takes the sample's instruction, or a caller behind it; returns true if there are too many to keep.
    fn call(&mut self, call: &Call) -> bool {
        if !std::mem::replace(&mut self.has_place, true) {
            self.sample.ip = call.addr;
            self.sample.mode = CpuMode::of_code(call.addr);
            return false;
        }
        let is_kept = self.callers.len() < CALLERS_MAX;
        if is_kept {
            self.callers.push(call.addr);
        }
        !is_kept
    }
}

struct Parsed<'a> {
    event: &'a str,
    /// Without its instruction.
    sample: Sample,
    /// The instruction, unless it stands in a call chain behind.
    place: Option<Call>,
}

fn parse(line: &str) -> Option<Parsed<'_>> {
    let (fields, words) = line.split_at(line.find('|')?);
    let mut fields = fields.split_ascii_whitespace();
    let (pid, tid) = ids(fields.next()?)?;
    let cpu = cpu(fields.next()?)?;
    let time_ns = time_ns(fields.next()?.strip_suffix(':')?)?;
    let event = fields.next()?.strip_suffix(':')?;
    let addr = u64::from_str_radix(fields.next()?, 16).ok()?;
    let data_src = u64::from_str_radix(fields.next()?, 16).ok()?;
    if fields.next().is_some() {
        return None;
    }
    // The data source in words, which perf cuts off at some length: the weight is the first number
    // behind the last bar.
    let (_, rest) = words.rsplit_once('|')?;
    let is_word = |word: &&str| word.parse::<u64>().is_err();
    let mut rest = rest.split_ascii_whitespace().skip_while(is_word).peekable();
    let weight = rest.next()?.parse().ok()?;
    let place = match rest.peek() {
        Some(_) => Some(Call::read(rest)?),
        None => None,
    };
    let sample = Sample {
        pid,
        tid,
        cpu,
        time_ns,
        addr,
        data_src: DataSrc(data_src),
        weight,
        period: 1,
        ..Sample::default()
    };
    Some(Parsed {
        event,
        sample,
        place,
    })
}

/// `pid/tid`; perf writes -1 for a process that it does not know.
fn ids(word: &str) -> Option<(u32, u32)> {
    let (pid, tid) = word.split_once('/')?;
    let id = |text: &str| text.parse::<i64>().ok().map(|id| id as u32);
    Some((id(pid)?, id(tid)?))
}

/// `[024]`.
fn cpu(word: &str) -> Option<u32> {
    word.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// Seconds with six or nine decimals.
fn time_ns(word: &str) -> Option<u64> {
    let (seconds, decimals) = word.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(decimals) || decimals.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - decimals.len() as u32);
    let fraction = decimals.parse::<u64>().ok()? * scale;
    seconds
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: &str = "19093/19095 [024]     1.000104: cpu/mem-loads,ldlat=30/P:       40032a5930    \
        183601808042 |OP LOAD|LVL Remote socket, same board Any cache hit|SNP HitM|TLB N/A|LCK N/A\
        |BLK              361       40029a9b4c __clone\n";
    /// perf cut the words of the data source off.
    const CUT: &str = "1/2 [024]     1.000104: s:  40032a6000    183601800184 |OP STORE|LVL Remote \
        socket, same board Any cache miss|SNP HitM|TLB N/A|LCK N/A              361       401000 f\n";
    const STORE: &str = "-1/7 [000] 1.5: s:  ffffffff81000000  201100144 |OP STORE|LVL L1 or L1 hit\
        |SNP None|TLB N/A|LCK N/A|BLK  N/A    1    ffffffff81000010 [unknown]\n";

    fn samples(text: &str) -> Result<(PerfData, Vec<Sample>), String> {
        let mut samples = Vec::new();
        let data = read(
            text.as_bytes(),
            &mut |_, sample, _| samples.push(*sample),
            &mut |_| {},
        );
        data.map(|data| (data, samples))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn lines_are_samples() {
        let text = format!("# a comment\n\n{LOAD}{STORE}{LOAD}");
        assert!(is_script(text.as_bytes()));
        let (data, samples) = samples(&text).unwrap();
        let (_, cut) = self::samples(CUT).unwrap();
        assert_eq!((cut[0].weight, cut[0].ip), (361, 0x40_1000));
        let events: Vec<_> = data
            .events
            .iter()
            .map(|event| (event.name.as_str(), event.sample_count))
            .collect();
        assert_eq!(events, [("cpu/mem-loads,ldlat=30/P", 2), ("s", 1)]);
        let load = samples[0];
        assert_eq!(
            (load.pid, load.tid, load.cpu, load.mode),
            (19093, 19095, 24, CpuMode::User)
        );
        assert_eq!((load.time_ns, load.weight), (1_000_104_000, 361));
        assert_eq!((load.addr, load.ip), (0x40_032a_5930, 0x40_029a_9b4c));
        assert_eq!(load.data_src, DataSrc(0x1836_0180_8042));
        assert_eq!(
            (samples[1].pid, samples[1].mode),
            (u32::MAX, CpuMode::Kernel)
        );
        assert_eq!(samples[1].time_ns, 1_500_000_000);
        assert_eq!(data.code_names[&(19093, 0x40_029a_9b4c)], "__clone");
    }

    #[test]
    fn call_chains_stand_behind_their_samples() {
        let load = LOAD.trim_end().strip_suffix("40029a9b4c __clone").unwrap();
        let chain = "\t  1370 touch+0x5\n\t  1370 main (inlined)\n\t 88f0e start_thread\n\tffffffffffffffff [unknown]\n";
        let text = format!("{load}\n{chain}\n{STORE}{load}\n\t 88f0e start_thread\n");
        assert!(is_script(text.as_bytes()));
        let mut chains = Vec::new();
        let mut visit = |_: usize, sample: &Sample, callers: &[u64]| {
            chains.push((sample.ip, callers.to_vec()));
        };
        let data = read(text.as_bytes(), &mut visit, &mut |_| {}).unwrap();
        let store = (0xffff_ffff_8100_0010, vec![]);
        let first = (0x1370, vec![0x8_8f0e, u64::MAX]);
        assert_eq!(chains, [first, store, (0x8_8f0e, vec![])]);
        assert_eq!(data.code_names[&(19093, 0x1370)], "touch");
        assert_eq!(data.code_names[&(19093, 0x8_8f0e)], "start_thread");
        let error = samples(&format!("{load}\n{STORE}")).unwrap_err();
        assert!(error.contains("found line 1"), "{error}");
        let error = samples(&format!("{load}\n\t touch\n")).unwrap_err();
        assert!(error.contains("found line 2"), "{error}");
    }

    #[test]
    fn what_is_no_sample_is_an_error_with_its_place() {
        let cut = &LOAD[..LOAD.len() - 30];
        let error = samples(&format!("{STORE}{cut}")).unwrap_err();
        assert!(
            error.starts_with(&format!(
                "byte {}: a line of perf script: found line 2",
                STORE.len()
            )),
            "{error}"
        );
        assert!(error.ends_with(EXPECTED), "{error}");
        assert!(!is_script(b"what somebody wrote"));
        assert!(!is_script(b""));
    }
}
