//! Reading the table of a sweep.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use hitm_files::input_file::{self, NamedBy};
use hitm_sweep::read::{MAGIC, TableReader};
use hitm_sweep::table::{Cell, Column};

use super::{Error, TABLE_FILE};

/// Returns the path of the table when `input` is a sweep: its folder, or a Parquet file.
pub fn table_of(input: &Path) -> Option<PathBuf> {
    let facts = fs::metadata(input).ok()?;
    if facts.is_dir() {
        let table = input.join(TABLE_FILE);
        return (table.exists() || input.join("runs").is_dir()).then_some(table);
    }
    // A pipe would lose the bytes read here, so it is not checked.
    let mut start = [0; MAGIC.len()];
    let is_parquet = facts.is_file()
        && input_file::open(input, NamedBy::User)
            .is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && start == *MAGIC;
    is_parquet.then(|| input.to_owned())
}

/// Reads a table: calls `begin` with its columns, then `row` with the cells of each row.
///
/// # Errors
/// A file that cannot be read or is damaged.
pub fn read_table<T>(
    path: &Path,
    begin: impl FnOnce(&[Column]) -> T,
    mut row: impl FnMut(&mut T, &[Cell]),
) -> Result<T, Error> {
    let failed = |message: String| Error::Read {
        path: path.to_owned(),
        message,
    };
    let file = input_file::open(path, NamedBy::Input);
    let file = file.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            failed("there is no such table: run the sweep to its end first".to_owned())
        }
        _ => failed(hitm_files::limits::explain(error).to_string()),
    })?;
    let reader = TableReader::new(file).map_err(|error| failed(error.to_string()))?;
    let mut state = begin(reader.columns());
    let rows = reader.rows(|cells| row(&mut state, cells));
    rows.map_err(|error| failed(error.to_string()))?;
    Ok(state)
}
