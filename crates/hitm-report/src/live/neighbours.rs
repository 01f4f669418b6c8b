//! Holders of the CPU while groups wait: as text and as JSON. The quantities are declared beside what is measured, in
//! `hitm_live::neighbours`.

mod json;
mod text;

#[cfg(test)]
mod tests;

pub use json::json;
pub use text::text;
