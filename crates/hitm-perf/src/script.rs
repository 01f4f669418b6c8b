//! The text of `perf script -F pid,tid,cpu,time,event,addr,weight,data_src,ip,sym`.
//!
//! For files that may not leave a machine in binary form. One line is one sample; the fields stand
//! in perf's own order, whatever the order behind `-F`:
//!
//! ```text
//! 4242/4243 [024]     1.000104: cpu/mem-loads,ldlat=30/P:  7f0000005930  183601808042 |OP LOAD|...|BLK  N/A   361   401370 main
//! ```
//!
//! Lines that begin with `#` are perf's comments. There are no mappings: code has the names that
//! perf gave it, data has none.

use std::io::{BufRead, Read as _};

use crate::read::{Event, PerfData, ReadError, Visit};
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
    let mut words = lines.next().unwrap_or_default().split_ascii_whitespace();
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
    let mut data = PerfData::default();
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
        if !is_comment(&line) {
            let Some(parsed) = parse(&line) else {
                let found: String = line.trim().chars().take(120).collect();
                let found = format!("line {number}, {found:?}");
                return Err(ReadError::malformed(
                    offset,
                    "a line of perf script",
                    found,
                    EXPECTED,
                ));
            };
            take(&mut data, &parsed, offset, visit)?;
        }
        offset += len as u64;
        if number.is_multiple_of(1 << 14) {
            progress(offset);
        }
    }
    data.notes
        .push("read from text: there are no mappings, so that data has no names".to_owned());
    Ok(data)
}

struct Parsed<'a> {
    event: &'a str,
    sample: Sample,
    /// Empty or in brackets when perf knows none.
    symbol: String,
}

fn take(
    data: &mut PerfData,
    parsed: &Parsed<'_>,
    offset: u64,
    visit: &mut Visit<'_>,
) -> Result<(), ReadError> {
    let known = data
        .events
        .iter()
        .position(|event| event.name == parsed.event);
    let index = match known {
        Some(index) => index,
        None if data.events.len() >= EVENTS_MAX => {
            return Err(ReadError::malformed(offset, "events", "more", EVENTS_MAX));
        }
        None => {
            data.events.push(Event {
                name: parsed.event.to_owned(),
                ..Event::default()
            });
            data.events.len() - 1
        }
    };
    data.events[index].sample_count += 1;
    data.events[index].period_sum += 1;
    let is_known = !parsed.symbol.is_empty() && !parsed.symbol.starts_with('[');
    if is_known && data.code_names.len() < NAMES_MAX {
        let key = (parsed.sample.pid, parsed.sample.ip);
        data.code_names
            .entry(key)
            .or_insert_with(|| parsed.symbol.clone());
    }
    visit(index, &parsed.sample, &[]);
    Ok(())
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
    let mut rest = rest.split_ascii_whitespace().skip_while(is_word);
    let weight = rest.next()?.parse().ok()?;
    let ip = u64::from_str_radix(rest.next()?, 16).ok()?;
    let symbol: Vec<&str> = rest.collect();
    let symbol = symbol.join(" ");
    let sample = Sample {
        lives: [0; 2],
        pid,
        tid,
        cpu,
        mode: CpuMode::of_code(ip),
        time_ns,
        ip,
        addr,
        data_src: DataSrc(data_src),
        weight,
        period: 1,
        phys_addr: 0,
    };
    Some(Parsed {
        event,
        sample,
        symbol: symbol
            .split_once("+0x")
            .map_or(symbol.clone(), |(name, _)| name.to_owned()),
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
