//! Integration tests: files in every layout, read back.

mod generator;
mod hostile;
mod import;
mod vendors;
