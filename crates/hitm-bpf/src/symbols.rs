//! Addresses of kernel functions.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::sync::OnceLock;

use crate::Error;
use crate::object::Constant;

/// The end of the kernel's code, behind which no function of it is listed: /proc/kallsyms is in ascending order.
const END_OF_CODE: &str = "_etext";

/// Functions of groups with a quota, by /proc/kallsyms: zero for those that the kernel lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct QuotaFunctions {
    /// The timer at which a group gets its next quota.
    pub(crate) period_timer: u64,
    /// The timer at which CPUs get what others have left.
    pub(crate) slack_timer: u64,
    /// Unthrottles on the CPU that a timer asks to (Linux 6.4 and later).
    pub(crate) unthrottle_handler: u64,
    /// Throttles a task on its way to user space (Linux 6.18 and later).
    pub(crate) throttle_work: u64,
}

impl QuotaFunctions {
    /// Finds them, once in a process: the kernel makes its list anew for each reader.
    ///
    /// # Errors
    /// The list cannot be read, or shows no addresses to this process (kptr_restrict).
    pub(crate) fn find() -> Result<QuotaFunctions, Error> {
        static FOUND: OnceLock<QuotaFunctions> = OnceLock::new();
        if let Some(found) = FOUND.get() {
            return Ok(*found);
        }
        let listed = File::open("/proc/kallsyms").and_then(|file| listed(BufReader::new(file)));
        let found = listed.map_err(|error| Error::Symbols(error.to_string()))??;
        Ok(*FOUND.get_or_init(|| found))
    }

    /// Those that programs compare with.
    pub(crate) fn constants(&self) -> [Constant; 3] {
        let constant = |name, address: u64| (name, address.to_ne_bytes().to_vec());
        [
            constant("period_timer", self.period_timer),
            constant("slack_timer", self.slack_timer),
            constant("unthrottle_handler", self.unthrottle_handler),
        ]
    }

    fn is_complete(&self) -> bool {
        let QuotaFunctions {
            period_timer,
            slack_timer,
            unthrottle_handler,
            throttle_work,
        } = *self;
        ![period_timer, slack_timer, unthrottle_handler, throttle_work].contains(&0)
    }

    /// The place of a function's address.
    fn place(&mut self, name: &[u8]) -> Option<&mut u64> {
        match name {
            b"sched_cfs_period_timer" => Some(&mut self.period_timer),
            b"sched_cfs_slack_timer" => Some(&mut self.slack_timer),
            b"__cfsb_csd_unthrottle" => Some(&mut self.unthrottle_handler),
            b"throttle_cfs_rq_work" => Some(&mut self.throttle_work),
            _ => None,
        }
    }
}

/// Finds the functions in a list, which is read no further than they can be.
fn listed(mut lines: impl BufRead) -> io::Result<Result<QuotaFunctions, Error>> {
    let mut found = QuotaFunctions::default();
    let mut has_addresses = false;
    let mut line = Vec::new();
    while !found.is_complete() && lines.read_until(b'\n', &mut line)? > 0 {
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        if let (Some(address), Some(_kind), Some(name)) = (words.next(), words.next(), words.next())
        {
            let address = std::str::from_utf8(address).unwrap_or_default();
            let address = u64::from_str_radix(address, 16).unwrap_or(0);
            has_addresses |= address != 0;
            if name == END_OF_CODE.as_bytes() {
                break;
            }
            if let Some(place) = found.place(name) {
                *place = address;
            }
        }
        line.clear();
    }
    Ok(match has_addresses {
        true => Ok(found),
        false => Err(Error::Symbols(
            "it shows no addresses (sysctl kernel.kptr_restrict)".to_owned(),
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> QuotaFunctions {
        listed(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn parts_of_functions_and_missing_ones_are_told_apart() {
        let text = "ffffffff81208c9e t sched_cfs_period_timer.cold\n\
                    ffffffff813babb0 t sched_cfs_period_timer\n";
        let expected = QuotaFunctions {
            period_timer: 0xffff_ffff_813b_abb0,
            ..QuotaFunctions::default()
        };
        assert_eq!(found(text), expected);
    }

    #[test]
    fn nothing_is_read_behind_the_code_and_the_last_function() {
        let behind = "ffffffff82000000 T sched_cfs_slack_timer\n";
        let code = format!("ffffffff81e00000 T _etext\n{behind}");
        let error = listed(code.as_bytes()).unwrap().unwrap();
        assert_eq!(error, QuotaFunctions::default());

        let names = [
            "sched_cfs_period_timer",
            "sched_cfs_slack_timer",
            "__cfsb_csd_unthrottle",
            "throttle_cfs_rq_work",
        ];
        let lines = (1..).zip(names);
        let all: String = lines
            .map(|(address, name)| format!("{address:016x} t {name}\n"))
            .collect();
        let expected = QuotaFunctions {
            period_timer: 1,
            slack_timer: 2,
            unthrottle_handler: 3,
            throttle_work: 4,
        };
        assert_eq!(found(&format!("{all}{behind}")), expected);
    }

    #[test]
    fn hidden_addresses_are_an_error() {
        let text = "0000000000000000 t sched_cfs_period_timer\n";
        assert!(listed(text.as_bytes()).unwrap().is_err());
    }
}
