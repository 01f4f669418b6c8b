//! A small hash that is the same on every host and in every build.

/// FNV-1a of 64 bits (Fowler, Noll and Vo). No protection against texts that are made to collide:
/// for keys that nobody attacks, and for telling runs and files apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fnv1a(u64);

impl Fnv1a {
    /// The hash of nothing.
    pub const EMPTY: Fnv1a = Fnv1a(0xcbf2_9ce4_8422_2325);

    /// A hash that begins elsewhere: equal bytes get other values than from [`Fnv1a::EMPTY`].
    pub const fn from_seed(seed: u64) -> Fnv1a {
        Fnv1a(seed)
    }

    /// With these bytes behind what is there.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Fnv1a {
        bytes.iter().fold(self, |hash, byte| {
            Fnv1a((hash.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
        })
    }

    /// With a word of some length behind what is there: `ab`, `c` is not `a`, `bc`.
    #[must_use]
    pub fn with_word(self, word: &[u8]) -> Fnv1a {
        self.with(&(word.len() as u64).to_le_bytes()).with(word)
    }

    /// Returns the hash as a number.
    pub const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that the authors of the function publish.
    #[test]
    fn the_published_values() {
        assert_eq!(Fnv1a::EMPTY.with(b"a").value(), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fnv1a::EMPTY.with(b"foobar").value(), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn words_do_not_run_together() {
        let of = |words: [&str; 2]| {
            let add = |hash: Fnv1a, word: &str| hash.with_word(word.as_bytes());
            words.into_iter().fold(Fnv1a::EMPTY, add)
        };
        assert_ne!(of(["ab", "c"]), of(["a", "bc"]));
        assert_eq!(of(["ab", "c"]), of(["ab", "c"]));
    }
}
