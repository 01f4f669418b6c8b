//! The parts of a piece of compiled code. Until JDK 22 they follow each other; later the tables that no execution
//! changes lie apart, and since JDK 25 what execution changes does too.

use std::ops::Range;

use crate::{HotspotError, JavaMachine};

/// Tables of a compiled method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    /// Described places.
    pub(crate) places: Range<u64>,
    /// Start of what the places refer to.
    pub(crate) scopes: u64,
    /// List of methods, by number.
    pub(crate) metadata: u64,
}

impl JavaMachine<'_> {
    /// The word that a member of a blob is.
    fn member(&self, blob: u64, of: &str, name: &str) -> Result<u64, HotspotError> {
        let offset = self.tables.offset(of, name)?;
        self.view.word(blob.wrapping_add(offset))
    }

    /// The address that an offset in a blob makes of its base.
    fn behind(&self, blob: u64, base: u64, of: &str, name: &str) -> Result<u64, HotspotError> {
        let offset = self.tables.offset(of, name)?;
        let distance = self.view.int(blob.wrapping_add(offset))?;
        Ok(base.wrapping_add(distance as u64))
    }

    /// The instructions of a blob.
    pub(crate) fn instructions(&self, blob: u64) -> Result<Range<u64>, HotspotError> {
        match self.tables.offset("CodeBlob", "_code_begin") {
            Ok(_) => {
                let end = self.member(blob, "CodeBlob", "_code_end")?;
                Ok(self.member(blob, "CodeBlob", "_code_begin")?..end)
            }
            Err(_) => {
                let end = self.behind(blob, blob, "CodeBlob", "_data_offset")?;
                Ok(self.behind(blob, blob, "CodeBlob", "_code_offset")?..end)
            }
        }
    }

    /// The method that a blob is compiled of.
    pub(crate) fn method_of(&self, blob: u64) -> Result<u64, HotspotError> {
        let of = match self.tables.offset("CompiledMethod", "_method") {
            Ok(_) => "CompiledMethod",
            Err(_) => "nmethod",
        };
        self.member(blob, of, "_method")
    }

    /// The tables of a compiled method.
    pub(crate) fn tables_of(&self, blob: u64) -> Result<Tables, HotspotError> {
        if self.tables.offset("nmethod", "_immutable_data").is_err() {
            let places = self.behind(blob, blob, "nmethod", "_scopes_pcs_offset")?
                ..self.behind(blob, blob, "nmethod", "_dependencies_offset")?;
            return Ok(Tables {
                places,
                scopes: self.member(blob, "CompiledMethod", "_scopes_data_begin")?,
                metadata: self.behind(blob, blob, "nmethod", "_metadata_offset")?,
            });
        }
        let fixed = self.member(blob, "nmethod", "_immutable_data")?;
        let mutable = self.member(blob, "CodeBlob", "_mutable_data")?;
        let first = self.behind(blob, fixed, "nmethod", "_scopes_pcs_offset")?;
        let scopes = self.behind(blob, fixed, "nmethod", "_scopes_data_offset")?;
        // The two tables changed places within JDK 25.
        let end = match scopes > first {
            true => scopes,
            false => self.behind(blob, fixed, "nmethod", "_immutable_data_size")?,
        };
        Ok(Tables {
            places: first..end,
            scopes,
            metadata: self.behind(blob, mutable, "CodeBlob", "_relocation_size")?,
        })
    }
}
