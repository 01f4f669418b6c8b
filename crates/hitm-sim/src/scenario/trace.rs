//! Trace files of requests: a line for each, with the time of its arrival and the CPU time that it
//! takes.

use std::time::Duration;

use thiserror::Error;

use super::quantity::{nanos, time};
use crate::workload::requests::TracedRequest;

/// Longest file, in bytes.
pub const TRACE_BYTES_MAX: usize = 64 << 20;
/// The most requests of a file.
const REQUESTS_MAX: usize = 1 << 20;
/// The latest arrival, and the longest request.
const TIME_MAX: Duration = Duration::from_secs(3_600);

/// A mistake in a trace file, with its line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}:{line}: found {found}, expected {expected}")]
pub struct TraceError {
    /// The file's name.
    pub origin: String,
    /// The line, from 1.
    pub line: usize,
    /// Content of that line.
    pub found: String,
    /// Content that would be right there.
    pub expected: &'static str,
}

/// Reads a trace: lines such as `1.5ms 200us`, in order of time. Empty lines and those that begin
/// with `#` do not count.
///
/// # Errors
/// A line of another form, times out of order, no request or too many: with the line.
pub fn parse_trace(text: &str, origin: &str) -> Result<Vec<TracedRequest>, TraceError> {
    let mut requests: Vec<TracedRequest> = Vec::new();
    let error = |line: usize, found: String, expected| TraceError {
        origin: origin.to_owned(),
        line: line + 1,
        found,
        expected,
    };
    let mut last = 0;
    for (number, line) in text.lines().enumerate() {
        last = number;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let found = || format!("{:?}", line.chars().take(60).collect::<String>());
        let Some((at, service)) = request(line) else {
            let expected = "an arrival and a CPU time of at least 1ns, such as \"1.5ms 200us\"";
            return Err(error(number, found(), expected));
        };
        if requests
            .last()
            .is_some_and(|before| before.at.0 > nanos(at).0)
        {
            return Err(error(
                number,
                found(),
                "an arrival not before the one above",
            ));
        }
        if requests.len() == REQUESTS_MAX {
            return Err(error(
                number,
                "one more request".to_owned(),
                "at most 1048576 requests",
            ));
        }
        requests.push(TracedRequest {
            at: nanos(at),
            service: nanos(service),
        });
    }
    if requests.is_empty() {
        return Err(error(last, "no request".to_owned(), "at least one"));
    }
    Ok(requests)
}

fn request(line: &str) -> Option<(Duration, Duration)> {
    let mut words = line.split_whitespace();
    let at = time(words.next()?, TIME_MAX)?;
    let service = time(words.next()?, TIME_MAX)?;
    (words.next().is_none() && service > Duration::ZERO).then_some((at, service))
}

#[cfg(test)]
mod tests {
    use hitm_base::Nanos;

    use super::*;

    #[test]
    fn a_line_is_a_request() {
        let text = "# of Tuesday\n0ms 200us\n\n1.5ms 1ms\n1.5ms 3ns\n";
        let read = parse_trace(text, "t").unwrap();
        let request = |at, service| TracedRequest {
            at: Nanos(at),
            service: Nanos(service),
        };
        let expected = [
            request(0.0, 200e3),
            request(1.5e6, 1e6),
            request(1.5e6, 3.0),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn other_lines_are_mistakes() {
        let wrong = [
            ("", "t:1: found no request, expected at least one"),
            ("1ms", "t:1: found \"1ms\", expected an arrival"),
            ("1ms 2ms 3ms", "t:1: found \"1ms 2ms 3ms\""),
            ("0s 1us\n1ms 0s", "t:2: found \"1ms 0s\""),
            ("2ms 1us\n1ms 1us", "expected an arrival not before"),
            ("1 2", "t:1:"),
        ];
        for (text, expected) in wrong {
            let error = parse_trace(text, "t").unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(\\PC|\n){0,60}") {
            let _ = parse_trace(&text, "t");
        }
    }
}
