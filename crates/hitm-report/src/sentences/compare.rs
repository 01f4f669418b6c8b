//! Two programs compared, in words.

use super::sentences;

sentences! {
    /// Time that the runs take, measured by others.
    takes(after, change, before, range, lost) = "{after} takes {change} than {before}{range}; {lost}.";
    /// Their difference.
    threads_cycles(share, word) = "{share} {word} threads' cycles";
    /// Runs that overlap.
    alike(after, before, from, to, lost) = "The runs do not tell {after} from {before}: threads' cycles change by {from} to {to}; {lost}.";
    /// Least and largest change of any two runs.
    range(from, to) = " ({from} to {to})";
    /// Loss of both.
    lost_by_each(before, after) = "lost to contention: {before}, then {after}";
    /// Recordings without time.
    no_time() = "Nothing to compare: a recording does not say how long its threads ran.";
}
