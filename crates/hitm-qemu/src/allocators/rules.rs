//! Functions that allocate and free, by their names, and where their arguments are.

use std::collections::HashMap;

/// Registers in which a function takes its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Abi {
    C,
    /// Go's own, since Go 1.17.
    Go,
}

/// A function's use of blocks. Arguments count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) abi: Abi,
    /// Argument with the bytes of the block that the function hands out.
    pub(crate) size: Option<u8>,
    /// Argument that the size is multiplied by.
    pub(crate) count: Option<u8>,
    /// Argument with the block that it takes back.
    pub(crate) old: Option<u8>,
    /// Argument with the place for the block's address; without it, the function returns the address.
    pub(crate) out: Option<u8>,
    /// Argument with the address of the description of the block's type.
    pub(crate) told_type: Option<u8>,
}

const NOTHING: Rule = Rule {
    abi: Abi::C,
    size: None,
    count: None,
    old: None,
    out: None,
    told_type: None,
};

const fn allocates(size: u8) -> Rule {
    Rule {
        size: Some(size),
        ..NOTHING
    }
}

const fn frees(old: u8) -> Rule {
    Rule {
        old: Some(old),
        ..NOTHING
    }
}

const fn reallocates(old: u8, size: u8) -> Rule {
    Rule {
        old: Some(old),
        size: Some(size),
        ..NOTHING
    }
}

const CALLOC: Rule = Rule {
    count: Some(1),
    ..allocates(2)
};
const POSIX_MEMALIGN: Rule = Rule {
    out: Some(1),
    ..allocates(3)
};

/// Functions of the C library, which `hitm-heap` stands before.
const INTERPOSED: [(&str, Rule); 7] = [
    ("malloc", allocates(1)),
    ("calloc", CALLOC),
    ("realloc", reallocates(1, 2)),
    ("free", frees(1)),
    ("memalign", allocates(2)),
    ("aligned_alloc", allocates(2)),
    ("posix_memalign", POSIX_MEMALIGN),
];

/// Prefixes of allocators to the C library's names: jemalloc and its Rust crate, mimalloc, tcmalloc,
/// snmalloc, rpmalloc, TBB, and glibc's other names for them.
const PREFIXES: [&str; 9] = [
    "je_",
    "_rjem_",
    "_rjem_je_",
    "mi_",
    "tc_",
    "sn_",
    "rp",
    "scalable_",
    "__libc_",
];

/// Functions with names and arguments of their own, by their rule.
const OWN: [(Rule, &str); 12] = [
    // C++: operators new and delete, with sizes, alignments and std::nothrow.
    (
        allocates(1),
        "_Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t _ZnamSt11align_val_t \
         _ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t",
    ),
    (
        frees(1),
        "_ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t \
         _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t",
    ),
    // jemalloc's extended functions.
    (allocates(1), "je_mallocx _rjem_mallocx"),
    (reallocates(1, 2), "je_rallocx _rjem_rallocx"),
    (
        frees(1),
        "je_dallocx je_sdallocx _rjem_dallocx _rjem_sdallocx",
    ),
    // mimalloc and tcmalloc.
    (
        allocates(1),
        "mi_zalloc mi_malloc_aligned mi_zalloc_aligned mi_new mi_new_aligned tc_new tc_newarray",
    ),
    (CALLOC, "mi_calloc_aligned"),
    (reallocates(1, 2), "mi_realloc_aligned mi_rezalloc"),
    (
        frees(1),
        "mi_free_size mi_free_aligned mi_free_size_aligned tc_delete tc_deletearray",
    ),
    // snmalloc for Rust: alignment, then size.
    (allocates(2), "sn_rust_alloc sn_rust_alloc_zeroed"),
    (frees(1), "sn_rust_dealloc"),
    (reallocates(1, 4), "sn_rust_realloc"),
];

/// Go's allocator: size, type, whether it is to be zero. Those with more to the name are for sizes.
const GO: &str = "runtime.mallocgc";
const GO_RULE: Rule = Rule {
    abi: Abi::Go,
    told_type: Some(2),
    ..allocates(1)
};

/// The rules of a process.
#[derive(Debug)]
pub(crate) struct Rules {
    by_name: HashMap<String, &'static Rule>,
    /// `hitm-heap` is preloaded, and sees the allocators of libraries.
    is_observed: bool,
}

impl Rules {
    /// The rules that are always there, and those of `more`, which `hitm record` has checked.
    pub(crate) fn new(more: &[String], is_observed: bool) -> Rules {
        let prefixed = PREFIXES.iter().flat_map(|prefix| {
            let with = move |(name, rule): &'static (&str, Rule)| (format!("{prefix}{name}"), rule);
            INTERPOSED.iter().map(with)
        });
        let own = OWN.iter().flat_map(|(rule, names)| {
            let names = names.split_ascii_whitespace();
            names.map(move |name| (name, rule))
        });
        let known = INTERPOSED.iter().map(|(name, rule)| (*name, rule));
        let known = known.chain(own);
        let known = known.map(|(name, rule)| (name.to_owned(), rule));
        let parsed = more.iter().filter_map(|text| parse(text));
        let given = parsed.map(|(name, rule)| (name, &*Box::leak(Box::new(rule))));
        Rules {
            by_name: prefixed.chain(known).chain(given).collect(),
            is_observed,
        }
    }

    /// The rule of a function of the program, or of a library of it.
    pub(crate) fn of(&self, name: &str, is_program: bool) -> Option<&'static Rule> {
        if name.starts_with(GO) {
            return Some(&GO_RULE);
        }
        let rule = self.by_name.get(name).copied()?;
        (is_program || !self.is_interposed(name)).then_some(rule)
    }

    /// Returns true if `hitm-heap` stands before the function where a library has it.
    pub(crate) fn is_interposed(&self, name: &str) -> bool {
        self.is_observed && INTERPOSED.iter().any(|(known, _)| *known == name)
    }
}

/// `my_alloc,size=2,count=1,free=3,out=4`: a function and the arguments that matter, in any order.
fn parse(text: &str) -> Option<(String, Rule)> {
    let mut parts = text.split(',');
    let name = parts.next()?;
    let mut rule = NOTHING;
    for part in parts {
        let (key, number) = part.split_once('=')?;
        let number = Some(number.parse().ok()?);
        match key {
            "size" => rule.size = number,
            "count" => rule.count = number,
            "free" => rule.old = number,
            "out" => rule.out = number,
            _ => return None,
        }
    }
    Some((name.to_string(), rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_name() {
        let rules = Rules::new(&["pool_get,size=2,count=3".into()], true);
        let of = |name| rules.of(name, true).copied();
        assert_eq!(of("malloc"), Some(allocates(1)));
        assert_eq!(of("_rjem_realloc"), Some(reallocates(1, 2)));
        assert_eq!(of("rpposix_memalign"), Some(POSIX_MEMALIGN));
        assert_eq!(of("runtime.mallocgcSmallNoscan"), Some(GO_RULE));
        assert_eq!(of("mallocated"), None);
        let pool = Rule {
            count: Some(3),
            ..allocates(2)
        };
        assert_eq!(of("pool_get"), Some(pool));
    }

    #[test]
    fn what_is_preloaded_sees_the_libraries() {
        let observed = |name| Rules::new(&[], true).of(name, false).is_some();
        assert!(!observed("malloc") && !observed("free"));
        assert!(observed("je_malloc"));
        assert!(Rules::new(&[], false).of("malloc", false).is_some());
    }
}
