//! Owners of code and data: the program, the C library and languages' runtimes.

use hitm_base::CodeAddr;

use super::AddressNames;
use super::heap_blocks::memory_of_hotspot;
use crate::generated::told::JAVA_HEAP;

impl AddressNames<'_> {
    /// Returns true for an access that is none of the program's own: by a language's runtime, or by the C
    /// library or the dynamic loader to their own variables.
    pub fn is_of_runtime(&self, addr: u64, code: CodeAddr) -> bool {
        let path = self.file_of(code);
        if is_one_of(path, LANGUAGE_FILES) || self.is_of_go_runtime(code) {
            return true;
        }
        // Counts of how often code runs, which code that is compiled for a start keeps.
        let block = self.objects.heap_at(addr);
        let memory = block.and_then(|block| memory_of_hotspot(&self.site_of(block)));
        if memory.is_some_and(|memory| memory != JAVA_HEAP)
            && self.recording.generated.data(addr).is_none()
        {
            return true;
        }
        let of_file = || self.symbolizer.borrow_mut().data(addr, 1).path;
        is_one_of(path, C_FILES) && of_file().is_some_and(|path| is_one_of(&path, C_FILES))
    }

    /// Returns true for an instruction of the C library, of what compilers add to it, or of a language's runtime.
    pub fn is_of_library(&self, code: CodeAddr) -> bool {
        let path = self.file_of(code);
        is_one_of(path, C_FILES) || is_one_of(path, LANGUAGE_FILES)
    }

    /// Path of the file that holds the instruction; empty for none.
    pub(super) fn file_of(&self, code: CodeAddr) -> &str {
        let mut mappings = self.recording.objects.mappings.iter();
        let holding = mappings.find(|mapping| mapping.range.contains(code.0));
        holding.map_or("", |mapping| mapping.path.as_str())
    }

    /// Go links its runtime into the program: its functions are known by their package.
    fn is_of_go_runtime(&self, code: CodeAddr) -> bool {
        let frames = self.code_frames(code);
        let outermost = frames.first().map(|frame| frame.function.as_str());
        let packages = ["runtime.", "internal/runtime/", "runtime/internal/"];
        outermost.is_some_and(|function| packages.iter().any(|of| function.starts_with(of)))
    }
}

/// Beginnings of the names of the files of the C library, what compilers add to it, and the dynamic loader.
pub(super) const C_FILES: &[&str] = &[
    "libc.so",
    "libc-2",
    "ld-linux",
    "ld-musl",
    "libpthread",
    "libgcc_s",
    "libgomp",
    "libiomp5",
    "libomp",
    "libstdc++",
    "libc++",
];

/// The same of languages' runtimes.
const LANGUAGE_FILES: &[&str] = &["libjvm.so", "libnode", "node", "libpython"];

/// Returns true if the name of a path's file begins with one of these.
pub(super) fn is_one_of(path: &str, files: &[&str]) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    files.iter().any(|begin| file.starts_with(begin))
}

/// Returns true for a file of the C library, what compilers add to it, and the dynamic loader.
pub fn is_of_c_library(path: &str) -> bool {
    is_one_of(path, C_FILES)
}
