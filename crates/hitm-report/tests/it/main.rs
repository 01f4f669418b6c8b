//! The report from statistics to text and JSON.

mod by;
mod ci;
mod document;
mod example;
mod explain;
mod findings;
mod gates;
mod live_recording;
mod model;
mod of_type;
mod page;
mod stacks;
mod sweep;
mod tables;
mod views;
