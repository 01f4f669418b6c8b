//! Sets of small numbers in one word.

/// The numbers of the bits that are set, ascending.
#[inline]
pub(crate) fn bits(word: u64) -> impl Iterator<Item = u16> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros() as u16);
        left &= left.wrapping_sub(1);
        bit
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_lowest_to_the_highest() {
        assert_eq!(bits(0).count(), 0);
        let numbers: Vec<u16> = bits(1 | 1 << 5 | 1 << 63).collect();
        assert_eq!(numbers, [0, 5, 63]);
    }
}
