//! The running kernel's memory.

use std::io;

use aya::maps::Array;
use aya::programs::{RawTracePoint, RawTracePointRunOptions, TestRun as _};

use crate::Error;
use crate::object::{Object, image};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 4096;

/// `struct piece` of peek.bpf.c.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
struct Piece([u8; PIECE_BYTES]);

// SAFETY: bytes without padding, of which any are valid.
unsafe impl aya::Pod for Piece {}

/// A reader of the running kernel's memory, which stops and changes nothing. What it reads may change meanwhile.
#[derive(Debug)]
pub struct KernelPeek {
    object: Object,
}

impl KernelPeek {
    /// Loads the program that reads.
    ///
    /// # Errors
    /// It cannot be loaded here.
    pub fn load() -> Result<KernelPeek, Error> {
        let mut object = Object::open(image::PEEK, &[])?;
        object.load_alone("peek", RawTracePoint::load)?;
        Ok(KernelPeek { object })
    }

    /// Reads `size` bytes at an address of the kernel.
    ///
    /// # Errors
    /// `InvalidInput` when some of them are not the kernel's memory, or cannot be read.
    pub fn read(&self, address: u64, size: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let end = address
            .checked_add(size)
            .ok_or_else(|| unreadable(address))?;
        let mut at = address;
        while at < end {
            let length = (end - at).min(PIECE_BYTES as u64);
            let piece = self.piece(at, length)?;
            bytes.extend_from_slice(&piece.0[..length as usize]);
            at += length;
        }
        Ok(bytes)
    }

    fn piece(&self, address: u64, size: u64) -> io::Result<Piece> {
        let program = self.object.loaded::<RawTracePoint>("peek");
        let program = program.map_err(io::Error::other)?;
        let mut options = RawTracePointRunOptions::new();
        options.args[0] = address;
        options.args[1] = size;
        let ran = program.test_run(options).map_err(io::Error::other)?;
        if ran.return_value != 0 {
            return Err(unreadable(address));
        }
        let pieces: Result<Array<_, Piece>, _> = self
            .object
            .map("pieces")
            .and_then(|map| Ok(Array::try_from(map)?));
        let read = pieces.and_then(|pieces| Ok(pieces.get(&0, 0)?));
        read.map_err(io::Error::other)
    }
}

fn unreadable(address: u64) -> io::Error {
    let text = format!("no readable memory of the kernel at {address:#x}");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
