//! Throttling of groups with a quota: as text, as JSON, and as tables of the view. The quantities are declared beside
//! what is measured, in `hitm_live::throttle`.

mod json;
mod screen;
mod text;

#[cfg(test)]
mod tests;

pub use json::json;
pub use text::text;
