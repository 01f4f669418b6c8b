//! An assembler for `.debug_line`, version 4.

use super::dwarf::signed;
use crate::unsigned;

/// A line program of one sequence after the other.
#[derive(Debug, Clone, Default)]
pub struct LineProgram {
    /// Names of files; the first is number 1.
    pub files: Vec<String>,
    operations: Vec<u8>,
}

impl LineProgram {
    /// Sets the address.
    pub fn address(&mut self, address: u64) {
        self.operations.extend([0, 9, 2]);
        self.operations.extend(address.to_le_bytes());
    }

    /// Adds a row so many bytes and lines further.
    pub fn row(&mut self, bytes: u64, lines: i64) {
        self.operations.push(2);
        unsigned(&mut self.operations, bytes);
        self.operations.push(3);
        signed(&mut self.operations, lines);
        self.operations.push(1);
    }

    /// Goes to a file.
    pub fn file(&mut self, number: u64) {
        self.operations.push(4);
        unsigned(&mut self.operations, number);
    }

    /// Adds any operation.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.operations.extend(bytes);
    }

    /// Ends the sequence.
    pub fn end(&mut self) {
        self.operations.extend([0, 1, 1]);
    }

    /// The section.
    pub fn finish(&self) -> Vec<u8> {
        let mut header: Vec<u8> = vec![1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
        header.extend(b"include\0\0");
        for file in &self.files {
            header.extend(file.bytes().filter(|byte| *byte != 0).chain([0, 1, 0, 0]));
        }
        header.push(0);
        let mut out = vec![4, 0];
        out.extend((header.len() as u32).to_le_bytes());
        out.extend(header);
        out.extend(&self.operations);
        let length = (out.len() as u32).to_le_bytes();
        [&length[..], &out].concat()
    }
}
