//! Layouts as text: in pahole's notation, and as C.

mod c;
mod text;

pub use c::c_source;
pub use text::{TextLayout, layout_text};
