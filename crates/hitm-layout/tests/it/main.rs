//! Programs compiled here print where their members, functions and lines are; the names that this
//! crate gives to those addresses must be the same.

mod btf;
mod emit;
mod fixture;
mod frames;
mod hostile;
mod languages;
mod layouts;
mod oracle;
mod pointers;
mod separate_debug;
mod several_units;
mod stripped;
