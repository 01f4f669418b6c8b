//! Decisions of a generator, taken from bytes.

/// Numbers at the ends of ranges, and around sizes at which arithmetic changes.
const EXTREMES: [u64; 32] = [
    u64::MAX,
    u64::MAX - 1,
    u64::MAX - 7,
    u64::MAX - 63,
    u64::MAX - 64,
    u64::MAX - 4095,
    1 << 63,
    (1 << 63) - 1,
    (1 << 63) + 1,
    1 << 62,
    (1 << 58) - 1,
    1 << 58,
    1 << 48,
    (1 << 47) - 1,
    0xffff_8000_0000_0000,
    1 << 40,
    1 << 33,
    1 << 32,
    u32::MAX as u64,
    u32::MAX as u64 - 1,
    1 << 31,
    (1 << 31) - 1,
    1 << 24,
    1 << 16,
    u16::MAX as u64,
    1 << 15,
    4096,
    4095,
    256,
    255,
    64,
    63,
];

/// Texts that a renderer or a parser may stumble over.
const TEXTS: [&str; 24] = [
    "",
    "a",
    "s",
    "main",
    "root_domain",
    "/fuzz",
    "[vdso]",
    "[heap]",
    "[kernel.kallsyms]_text",
    "\u{1b}]0;owned\u{7}",
    "\u{1b}[31mred",
    "line\nbreak",
    "\r\t\u{8}",
    "\0",
    "\u{202e}right to left",
    "\u{fffd}",
    "%s%n",
    "../../etc/passwd",
    "a.b[0].c",
    "\"quoted\" 'text'",
    "0x7fffffffffffffff",
    "calls_of_0xffffffff81000000",
    "_ZN4core3fmt9Formatter3padE",
    "\u{1f980}\u{1f980}\u{1f980}",
];

/// A source of decisions. It never fails: without bytes left, every further choice is the first
/// one, 0 or empty. So a generator that checks [`is_empty`](Self::is_empty) between its parts ends.
#[derive(Debug, Clone)]
pub struct Choices<'a> {
    bytes: &'a [u8],
    is_sound: bool,
}

impl<'a> Choices<'a> {
    /// Choices from these bytes.
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices {
            bytes,
            is_sound: false,
        }
    }

    /// Decides if [`odd`](Self::odd) is ever true: for half of the inputs it is not, so that they
    /// pass a parser's checks.
    pub fn draw_soundness(&mut self) {
        self.is_sound = self.one_in(2);
    }

    /// Decides that [`odd`](Self::odd) is never true.
    pub fn be_sound(&mut self) {
        self.is_sound = true;
    }

    /// Returns true if a choice shall be invalid, once in `times`.
    pub fn odd(&mut self, times: usize) -> bool {
        !self.is_sound && self.one_in(times)
    }

    /// Returns true if all bytes are used up.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next `count` bytes, or as many as are left.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let mut value = usize::from(self.byte());
        if bound > 256 {
            value |= usize::from(self.byte()) << 8;
        }
        value % bound
    }

    /// Returns true once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A number: small half of the time, else an extreme or any.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..=127 => u64::from(small),
            extreme @ 128..=191 => EXTREMES[usize::from(extreme) % EXTREMES.len()],
            192..=223 => self.word(2),
            224..=239 => self.word(4),
            240..=255 => self.word(8),
        }
    }

    /// A number of this many bytes.
    pub fn word(&mut self, len: usize) -> u64 {
        let bytes = self.bytes(len.min(8)).iter().rev();
        bytes.fold(0, |word, byte| word << 8 | u64::from(*byte))
    }

    /// Changes some bytes of a file, and cuts some files short.
    pub fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            let at = self.word(3) as usize % bytes.len();
            bytes[at] ^= self.byte();
        }
        if self.one_in(4) {
            let kept = self.word(3) as usize % bytes.len();
            bytes.truncate(kept);
        }
    }

    /// A number of things: a few, as many as a limit nearby allows, or now and then `many`.
    pub fn count(&mut self, many: usize) -> usize {
        match self.byte() {
            255 => many,
            254 => many / 16,
            usual => [0, 1, 1, 2, 2, 3, 4, 5, 8, 16, 63, 127, 128, 129][usize::from(usual) % 14],
        }
    }

    /// The low half of [`number`](Self::number).
    pub fn half(&mut self) -> u32 {
        self.number() as u32
    }

    /// A text: a hostile one, a long one, or any bytes that are UTF-8.
    pub fn text(&mut self) -> String {
        match self.byte() {
            known @ 0..=199 => TEXTS[usize::from(known) % TEXTS.len()].to_owned(),
            200..=215 => {
                let unit = TEXTS[self.below(TEXTS.len())];
                unit.repeat(self.below(40))
            }
            _ => {
                let len = self.below(24);
                String::from_utf8_lossy(self.bytes(len)).into_owned()
            }
        }
    }
}

/// `len` bytes of xorshift: the same for the same seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        let draw = |seed| {
            let bytes = noise(seed, 300);
            let mut choices = Choices::new(&bytes);
            let numbers: Vec<u64> = (0..20).map(|_| choices.number()).collect();
            (numbers, choices.text(), choices.pick(&[1, 2, 3]))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn used_up_bytes_choose_the_first() {
        let mut choices = Choices::new(&[]);
        assert!(choices.is_empty());
        assert_eq!((choices.number(), choices.below(9)), (0, 0));
        assert_eq!(
            (choices.text(), choices.pick(&["x", "y"])),
            (String::new(), "x")
        );
        assert!(!choices.one_in(4));
    }
}
