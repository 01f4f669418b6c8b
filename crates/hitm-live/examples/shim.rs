//! Runs a program under the lock observer and prints its locks.
//!
//! `cargo build --release -p hitm-locks && cargo run --release -p hitm-live --example shim -- PROGRAM ARGS`

use std::path::Path;
use std::process::{Command, ExitCode};

use hitm_live::shim::{Launch, library_directory};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let Some(program) = args.next() else {
        eprintln!("usage: shim PROGRAM ARGS");
        return ExitCode::from(2);
    };
    let beside = library_directory();
    let directory = match beside.join("../libhitm_locks.so").exists() {
        true => beside.join(".."),
        false => beside,
    };
    match run(&directory, Command::new(program).args(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(directory: &Path, command: &mut Command) -> Result<(), Box<dyn std::error::Error>> {
    let launch = Launch::prepare(directory)?;
    launch.observe(command);
    let status = command.status()?;
    let observation = launch.read()?;
    println!("{status}");
    for lock in &observation.locks {
        println!(
            "{:#x} {:?} {} acquisitions, {} contended, {} hand-overs, {} threads, wait {} us, held {} us, \
             u {:?} contended, {:?} all",
            lock.address,
            lock.kind,
            lock.acquisitions,
            lock.contended,
            lock.handovers,
            lock.thread_count,
            lock.wait_ns / 1000,
            lock.held_ns / 1000,
            lock.hold_share(),
            lock.hold_share_all(),
        );
        println!("  {:?} {:?}", lock.call_site.module, lock.wait_site);
    }
    println!("{:?}", observation.losses);
    println!(
        "{} processes, {} threads",
        observation.processes.len(),
        observation.threads.len()
    );
    Ok(())
}
