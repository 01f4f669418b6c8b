//! Neighbours: who has the CPU while tasks of a group are ready to run.

mod report;
mod run;

#[cfg(test)]
mod tests;

pub use report::{
    GroupTaker, NeighbourReport, ProcessTaker, WaitingGroup, group_taker, neighbour_report,
    process_taker, waiting_group,
};
pub use run::{Error, measure};
