//! Prints how time and memory of `hitm` grow with each number of its inputs.
//!
//! `cargo run -p hitm-test --example growth -- target/debug/hitm [SCALE [PART-OF-A-ROW]]`: the inputs of
//! `hitm_test::growth`, as many times as large, of the rows that have a text in them.

use std::path::PathBuf;

use hitm_test::growth::{inputs, measure};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [program, rest @ ..] = args.as_slice() else {
        return Err("usage: growth HITM [SCALE [PART-OF-A-ROW]]".into());
    };
    let program = PathBuf::from(program).canonicalize()?;
    let scale: f64 = rest.first().map_or(Ok(1.0), |text| text.parse())?;
    let part = rest.get(1).map_or("", String::as_str);
    for mut input in inputs() {
        if !input.number.contains(part) {
            continue;
        }
        input.size = (input.size as f64 * scale) as usize;
        let folder = std::env::temp_dir().join(format!("growth-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        let measured = measure(&input, &program, &folder);
        std::fs::remove_dir_all(&folder)?;
        match measured {
            Ok(measured) => {
                for growth in &measured.readers {
                    let of_it = |steep: &hitm_test::growth::Growth| steep.reader == growth.reader;
                    let mark = if measured.steep.iter().any(of_it) {
                        "!"
                    } else {
                        " "
                    };
                    println!("{mark} {growth}");
                }
            }
            Err(error) => println!("? {}: {error}", input.number),
        }
    }
    Ok(())
}
