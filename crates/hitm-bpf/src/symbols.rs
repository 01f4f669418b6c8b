//! Addresses of kernel functions.

use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::Error;

/// Addresses of `names` by /proc/kallsyms: zero for functions that the kernel lacks.
///
/// # Errors
/// The file cannot be read, or shows no addresses to this process (kptr_restrict).
pub(crate) fn addresses<const N: usize>(names: [&str; N]) -> Result<[u64; N], Error> {
    let failed = |error: std::io::Error| Error::Symbols(error.to_string());
    let file = File::open("/proc/kallsyms").map_err(failed)?;
    find(BufReader::new(file), names).map_err(failed)?
}

fn find<const N: usize>(
    lines: impl BufRead,
    names: [&str; N],
) -> std::io::Result<Result<[u64; N], Error>> {
    let mut found = [0; N];
    let mut has_addresses = false;
    for line in lines.lines() {
        let line = line?;
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(_kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let address = u64::from_str_radix(address, 16).unwrap_or(0);
        has_addresses |= address != 0;
        if let Some(index) = names.iter().position(|wanted| *wanted == name) {
            found[index] = address;
        }
    }
    Ok(match has_addresses {
        true => Ok(found),
        false => Err(Error::Symbols(
            "it shows no addresses (sysctl kernel.kptr_restrict)".to_owned(),
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_functions_and_missing_ones_are_told_apart() {
        let text = "ffffffff81208c9e t timer.cold\nffffffff813babb0 t timer\n";
        let found = find(text.as_bytes(), ["timer", "handler"])
            .unwrap()
            .unwrap();
        assert_eq!(found, [0xffff_ffff_813b_abb0, 0]);
    }

    #[test]
    fn hidden_addresses_are_an_error() {
        let text = "0000000000000000 t timer\n";
        assert!(find(text.as_bytes(), ["timer"]).unwrap().is_err());
    }
}
