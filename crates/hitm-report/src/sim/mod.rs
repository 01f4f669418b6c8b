//! Results of simulations as text and JSON.
//!
//! As for recordings, every quantity is declared once, in [`fields`].

pub mod fields;
mod json;
mod markdown;
mod sensitivity;
mod text;

pub use json::{SCHEMA, reproduction_json, simulation_json};
pub use markdown::reproduction_markdown;
pub use sensitivity::{sensitivity_json, sensitivity_text};
pub(crate) use text::figures;
pub use text::{Output, SimTextOptions, reproduction_text, simulation_text};
