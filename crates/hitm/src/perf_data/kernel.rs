//! Names that do not come from mapped files: of the kernel, from a list such as /proc/kallsyms, and
//! of functions that the samples themselves name.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::PerfDataError;
use crate::kernel::{KernelSymbols, SYMBOLS_MAX};

/// The longest line that is read: names of Rust and C++ symbols are the longest.
const LINE_LEN_MAX: u64 = 4096;

/// Reads lines of address, type and name. A file whose addresses are all hidden, as they are from
/// users without the right to see them, is an error.
pub(super) fn kernel_symbols(path: &Path) -> Result<KernelSymbols, PerfDataError> {
    let failed = |source| PerfDataError::Symbols {
        path: path.into(),
        source,
    };
    let wrong = |line: usize, message: &str| {
        failed(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            format!("line {line}: {message}"),
        ))
    };
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let mut symbols: Vec<(u64, String)> = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut limited = std::io::Read::take(&mut reader, LINE_LEN_MAX);
        if limited.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let symbol = KernelSymbols::entry(&text).ok_or_else(|| {
            wrong(
                number,
                "expected an address, a type and a name, as in /proc/kallsyms",
            )
        })?;
        symbols.push(symbol);
        if symbols.len() > SYMBOLS_MAX {
            return Err(wrong(number, "more symbols than a kernel has"));
        }
    }
    if symbols.iter().all(|(address, _)| *address == 0) {
        return Err(wrong(1, "every address is 0: read /proc/kallsyms as root"));
    }
    Ok(KernelSymbols::of(symbols))
}

/// All of these names.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExtraNames {
    pub(super) kernel: Option<KernelSymbols>,
    /// By address in the common space of all processes.
    pub(super) functions: BTreeMap<u64, String>,
}

impl ExtraNames {
    /// The function of an instruction.
    pub(crate) fn code(&self, addr: u64) -> Option<String> {
        if let Some(name) = self.functions.get(&addr) {
            return Some(name.clone());
        }
        self.data(addr).map(|(name, _)| name.to_owned())
    }

    /// What of the kernel is at an address, and how far behind its start.
    pub(crate) fn data(&self, addr: u64) -> Option<(&str, u64)> {
        let is_kernel = addr >> 63 == 1;
        self.kernel.as_ref().filter(|_| is_kernel)?.at(addr)
    }
}
