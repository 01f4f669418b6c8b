//! Addresses of the program's bytes in a replay.

/// Finds the bytes of the program in the replay.
pub trait Relocate {
    /// Appends the pieces in which `size` bytes at `addr` lie now, in order.
    fn pieces(&self, addr: u64, size: u8, pieces: &mut Vec<(u64, u8)>);

    /// Like [`Relocate::pieces`], for an access, which may be counted.
    fn relocate(&mut self, addr: u64, size: u8, pieces: &mut Vec<(u64, u8)>) {
        self.pieces(addr, size, pieces);
    }

    /// Lines from [`FRESH`](super::FRESH) on that the moved objects take.
    fn fresh_line_count(&self) -> usize;
}

/// Nothing is moved.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unmoved;

impl Relocate for Unmoved {
    fn pieces(&self, addr: u64, size: u8, pieces: &mut Vec<(u64, u8)>) {
        pieces.push((addr, size));
    }

    fn fresh_line_count(&self) -> usize {
        0
    }
}
