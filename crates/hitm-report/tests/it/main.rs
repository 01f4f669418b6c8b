//! The report from statistics to text and JSON.

mod by;
mod document;
mod example;
mod gates;
mod model;
mod of_type;
mod views;
