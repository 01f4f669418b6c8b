//! ANSI colours, when they are wanted.

use crate::printout::Color;

/// Role of a piece of text, not its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Verdict,
    Warning,
}

/// The colours of styles, or none at all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Painter {
    pub(crate) color: bool,
}

impl Painter {
    pub(crate) const fn color(self, style: Style) -> Color {
        match style {
            _ if !self.color => "",
            Style::Plain => "",
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Verdict => "1;31",
            Style::Warning => "33",
        }
    }
}
