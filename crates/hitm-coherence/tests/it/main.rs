//! The engine against a slow model of itself, and against what must hold on any machine.

mod engine;
mod fill;
mod machines;
mod reference;
mod replay;
mod taken;
mod values;
