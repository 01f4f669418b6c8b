//! Tests of the trace format through its public interface.

mod document;
mod file;
mod kinds;
mod ring;
mod samples;
