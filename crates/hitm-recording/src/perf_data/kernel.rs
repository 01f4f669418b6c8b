//! Names without mapped files: of the kernel, from a list such as /proc/kallsyms or from its
//! `vmlinux`, and of functions that the samples themselves name.
//!
//! A kernel may run at other addresses than it was linked for (KASLR). perf records them with the
//! mapping of the kernel's image. That mapping's name ends with that of a symbol, `_text` or
//! `_stext`, and its file offset is the symbol's address (tools/perf/util/event.c,
//! `machine__process_kernel_mmap_event`, Linux 6.1).

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use hitm_base::AddrRange;
use hitm_files::input_file::{self, NamedBy};
use hitm_kernel::{KernelSymbols, SYMBOLS_MAX, SymbolList};
use hitm_layout::{ObjectFile, Segment};
use hitm_trace::Mapping;

use super::PerfDataError;
use crate::recording::build_ids::{CopyOf, copies};

/// Limit on a line: names of Rust and C++ symbols are the longest.
const LINE_LEN_MAX: u64 = 4096;

/// Start of the name of the kernel's mapping.
const IMAGE_NAME: &str = "[kernel.kallsyms]";

/// Source of a sampled kernel's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSource {
    /// A copy of /proc/kallsyms.
    Kallsyms(PathBuf),
    /// The kernel's ELF file, with debug information or without.
    Vmlinux(PathBuf),
}

/// Names found for a kernel.
#[derive(Debug, Default)]
pub(super) struct KernelFound {
    symbols: Option<KernelSymbols>,
    /// Mappings of its ELF file.
    image: Vec<Mapping>,
}

/// Description of the kernel in a file of samples.
#[derive(Debug, Default)]
struct Sampled<'a> {
    build_id: &'a [u8],
    /// A symbol, and its address at run time.
    reference: Option<(&'a str, u64)>,
}

impl<'a> Sampled<'a> {
    fn of(mappings: &'a [Mapping]) -> Sampled<'a> {
        let image = mappings.iter().find_map(|mapping| {
            let symbol = mapping.path.strip_prefix(IMAGE_NAME)?;
            Some((mapping, symbol))
        });
        let Some((mapping, symbol)) = image else {
            return Sampled::default();
        };
        let has_place = mapping.file_offset != 0 && !symbol.is_empty();
        Sampled {
            build_id: &mapping.build_id,
            reference: has_place.then_some((symbol, mapping.file_offset)),
        }
    }

    /// Distance from a symbol's address in a file to its address at run time.
    fn shift(&self, address_of: impl FnOnce(&str) -> Option<u64>) -> u64 {
        let found = self.reference.and_then(|(symbol, address)| {
            let linked = address_of(symbol)?;
            Some(address.wrapping_sub(linked))
        });
        found.unwrap_or(0)
    }
}

impl KernelFound {
    /// Finds names for the kernel of these mappings: in `source`, or else in this host's caches
    /// under its build id.
    pub(super) fn find(
        mappings: &[Mapping],
        source: Option<&KernelSource>,
    ) -> Result<KernelFound, PerfDataError> {
        let sampled = Sampled::of(mappings);
        match source {
            Some(KernelSource::Kallsyms(path)) => kallsyms(path, &sampled, NamedBy::User),
            Some(KernelSource::Vmlinux(path)) => vmlinux(path, &sampled, NamedBy::User),
            None => Ok(in_caches(&sampled)),
        }
    }

    /// Adds the names to a recording's.
    pub(super) fn install(self, mappings: &mut Vec<Mapping>, extra: &mut ExtraNames) {
        if !self.image.is_empty() {
            mappings.retain(|mapping| !mapping.path.starts_with(IMAGE_NAME));
            mappings.extend(self.image);
        }
        extra.kernel = self.symbols;
    }
}

/// Searches the caches, and ignores files that cannot be used: the user named none of them.
fn in_caches(sampled: &Sampled<'_>) -> KernelFound {
    let places = [CopyOf::Executable, CopyOf::DebugInfo];
    let mut images = places
        .into_iter()
        .flat_map(|of| copies(sampled.build_id, of));
    let image = images.find_map(|path| vmlinux(&path, sampled, NamedBy::Input).ok());
    let list = || {
        let mut lists = copies(sampled.build_id, CopyOf::Kallsyms).into_iter();
        lists.find_map(|path| kallsyms(&path, sampled, NamedBy::Input).ok())
    };
    image.or_else(list).unwrap_or_default()
}

fn failed(path: &Path) -> impl Fn(io::Error) -> PerfDataError {
    move |source| PerfDataError::Symbols {
        path: path.into(),
        source,
    }
}

fn vmlinux(
    path: &Path,
    sampled: &Sampled<'_>,
    named_by: NamedBy,
) -> Result<KernelFound, PerfDataError> {
    let wrong = |message: String| failed(path)(io::Error::new(io::ErrorKind::InvalidData, message));
    let bytes = input_file::bytes(path, named_by).map_err(failed(path))?;
    let name = path.to_string_lossy().into_owned();
    let file = ObjectFile::parse(bytes, &name).map_err(|error| wrong(error.to_string()))?;
    let hex = |id: &[u8]| {
        id.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let build_id = file.build_id().unwrap_or_default();
    if !sampled.build_id.is_empty() && !build_id.is_empty() && build_id != sampled.build_id {
        return Err(wrong(format!(
            "build id: found {}, expected that of the sampled kernel, {}",
            hex(build_id),
            hex(sampled.build_id)
        )));
    }
    let shift = sampled.shift(|symbol| file.symbol_address(symbol));
    // Parts without bytes in the file follow those with bytes.
    let is_mapped = |part: &&Segment| part.vaddr >> 63 == 1 && part.file_size > 0;
    let in_kernel = file.segments().iter().filter(is_mapped);
    let image: Vec<Mapping> = in_kernel
        .map(|part| {
            let start = part.vaddr.wrapping_add(shift);
            let len = part.memory_size.min(u64::MAX - start);
            Mapping {
                range: AddrRange::with_len(start, len).unwrap_or_default(),
                file_offset: part.file_offset,
                path: name.clone(),
                build_id: build_id.to_vec(),
                executable: true,
            }
        })
        .collect();
    if image.is_empty() {
        return Err(wrong(
            "no part of it belongs into a kernel's half of the addresses".to_owned(),
        ));
    }
    Ok(KernelFound {
        symbols: None,
        image,
    })
}

/// Parses lines of address, type and name. A file with all addresses hidden, as from users without
/// the right to see them, is an error.
fn kallsyms(
    path: &Path,
    sampled: &Sampled<'_>,
    named_by: NamedBy,
) -> Result<KernelFound, PerfDataError> {
    let wrong = |line: usize, message: &str| {
        let message = format!("line {line}: {message}");
        failed(path)(io::Error::new(io::ErrorKind::InvalidData, message))
    };
    let mut reader = BufReader::new(input_file::open(path, named_by).map_err(failed(path))?);
    let mut symbols = SymbolList::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut limited = io::Read::take(&mut reader, LINE_LEN_MAX);
        if limited.read_until(b'\n', &mut line).map_err(failed(path))? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        if !symbols.add(&text) {
            return Err(wrong(
                number,
                "expected an address, a type and a name, as in /proc/kallsyms",
            ));
        }
        if symbols.count() > SYMBOLS_MAX {
            return Err(wrong(number, "more symbols than a kernel has"));
        }
    }
    if !symbols.has_addresses() {
        return Err(wrong(1, "every address is 0: read /proc/kallsyms as root"));
    }
    let listed = symbols.finish();
    let shift = sampled.shift(|symbol| listed.address(symbol));
    Ok(KernelFound {
        symbols: Some(listed.shifted(shift)),
        image: Vec::new(),
    })
}

/// Names that do not come from mapped files.
#[derive(Debug, Clone, Default)]
pub struct ExtraNames {
    pub(super) kernel: Option<KernelSymbols>,
    /// By address in the common space of all processes.
    pub(super) functions: BTreeMap<u64, String>,
}

impl ExtraNames {
    /// Function of an instruction.
    pub(crate) fn code(&self, addr: u64) -> Option<String> {
        if let Some(name) = self.functions.get(&addr) {
            return Some(name.clone());
        }
        self.data(addr).map(|(name, _)| name.to_owned())
    }

    /// Kernel symbol at or before an address, and the address's distance from it.
    pub(crate) fn data(&self, addr: u64) -> Option<(&str, u64)> {
        let is_kernel = addr >> 63 == 1;
        let found = self.kernel.as_ref().filter(|_| is_kernel)?.at(addr);
        // The list begins with offsets of per-CPU variables, which are below the kernel's
        // addresses.
        found.filter(|(_, offset)| (addr - offset) >> 63 == 1)
    }
}
