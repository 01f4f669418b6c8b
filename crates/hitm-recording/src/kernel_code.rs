//! Types of the memory that a recorded kernel's instructions access, by its machine code and its types.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use hitm_base::Architecture;
use hitm_kernel::KernelSymbols;
use hitm_layout::{AccessedType, BtfFile, BtfFlow, Bytes, CodeBytes, KernelFunction, TypeStore};

/// Bytes of a function that are followed: longer ones are generated tables.
const FUNCTION_BYTES_MAX: u64 = 256 << 10;

/// Name of the function that begins at an address.
type NameOf = Box<dyn Fn(u64) -> Option<String>>;

/// The code of one kernel.
#[derive(Debug)]
pub(crate) struct KernelCode {
    symbols: Rc<KernelSymbols>,
    flow: RefCell<BtfFlow<NameOf>>,
    /// Its code, where the listed symbols have it.
    begin: u64,
    bytes: Bytes,
    /// Bytes that the recorded image lies above the listed one.
    shift: u64,
}

impl KernelCode {
    /// Takes the code that a kernel had at its listed symbols; `shift` is what the recorded image lies above them.
    pub(crate) fn new(
        symbols: KernelSymbols,
        shift: u64,
        btf: BtfFile,
        bytes: Bytes,
    ) -> Option<KernelCode> {
        let begin = symbols.code()?.start;
        let symbols = Rc::new(symbols);
        let named = symbols.clone();
        let name_of = move |address| {
            let (name, into) = named.at(address)?;
            (into == 0).then(|| name.to_owned())
        };
        // Machines of other architectures are not recorded.
        let mut flow = BtfFlow::new(btf, Architecture::X86_64, Box::new(name_of) as NameOf);
        if let Some(area) = symbols.per_cpu() {
            flow.set_per_cpu(area.start);
        }
        Some(KernelCode {
            symbols,
            flow: RefCell::new(flow),
            begin,
            bytes,
            shift,
        })
    }

    /// The object that the instruction at an address of the recorded image accesses.
    pub(crate) fn accessed(&self, code: u64) -> Option<AccessedType> {
        let at = code.wrapping_sub(self.shift);
        let (name, into) = self.symbols.at(at)?;
        let begin = at - into;
        let function = KernelFunction {
            name,
            code: CodeBytes {
                begin,
                bytes: self.code_in(begin..self.symbols.next(at)?)?,
            },
        };
        self.flow.borrow_mut().access(&function, at)
    }

    /// The code in a range of listed addresses.
    fn code_in(&self, range: Range<u64>) -> Option<&[u8]> {
        let length = range.end - range.start;
        let first = range.start.checked_sub(self.begin)?;
        let is_function = length <= FUNCTION_BYTES_MAX;
        let range = first as usize..(first + length) as usize;
        is_function.then(|| self.bytes.get(range)).flatten()
    }

    /// Asks the types that instructions access.
    pub(crate) fn with_types<T>(&self, ask: impl FnOnce(&TypeStore) -> T) -> T {
        ask(self.flow.borrow_mut().btf().types())
    }
}

#[cfg(test)]
mod tests {
    use hitm_test::btf::{Assembler, kind};

    use super::*;

    const TEXT: u64 = 0xffff_ffff_8100_0000;

    /// A kernel with one function: `mov 8(%rdi),%rax; ret`.
    fn code(bytes: &[u8], shift: u64) -> KernelCode {
        let mut btf = Assembler::new(false);
        let long = btf.int("long int", 8);
        let members = [("usage", long, 0), ("min", long, 64)];
        let counter = btf.structure("page_counter", 16, &members);
        let to_counter = btf.of(kind::PTR, "", counter);
        btf.function("charge", 0, &[to_counter]);
        let btf = BtfFile::parse(btf.finish().into(), None, "the kernel").unwrap();
        let symbols = "ffffffff81000000 T _text\nffffffff81000000 T charge\nffffffff81000005 T behind\n\
                       ffffffff81000010 T _etext\nffffffff82000100 B _end\n";
        let symbols = KernelSymbols::parse(symbols);
        KernelCode::new(symbols, shift, btf, bytes.to_vec().into()).unwrap()
    }

    #[test]
    fn a_parameter_says_what_a_functions_code_accesses() {
        let bytes = [0x48, 0x8b, 0x47, 0x08, 0xc3, 0xc3];
        for shift in [0, 0x1000_0000] {
            let code = code(&bytes, shift);
            let found = code.accessed(TEXT + shift).unwrap();
            assert_eq!((found.offset, found.bytes), (8, 8));
            let name = code.with_types(|types| types.get(found.type_id).name.to_string());
            assert_eq!(name, "struct page_counter");
            assert_eq!(code.accessed(TEXT + shift + 4), None);
        }
    }

    #[test]
    fn code_that_is_not_kept_says_nothing() {
        assert_eq!(code(&[0x48, 0x8b], 0).accessed(TEXT), None);
        assert_eq!(code(&[], 0).accessed(TEXT + 5), None);
        assert_eq!(code(&[], 0).accessed(0), None);
        assert_eq!(code(&[], 0).accessed(u64::MAX), None);
    }
}
