//! Integration tests: files in every layout, read back.

mod hostile;
mod import;
