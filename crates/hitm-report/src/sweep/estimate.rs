//! What a sweep would cost, as text.

use std::num::NonZeroUsize;
use std::time::Duration;

use hitm::sweep::Estimate;
use hitm_base::grouped;

use crate::Printout;

/// The runs that are to be made and their time, with `jobs` at a time.
pub fn estimate_text(estimate: &Estimate, jobs: NonZeroUsize) -> Printout {
    let mut out = Printout::new();
    let runs = estimate.all - estimate.broken;
    out.line(&format!("runs         {}", grouped(runs as u64)));
    out.line(&format!(
        "to make      {}",
        grouped(estimate.missing as u64)
    ));
    if estimate.broken > 0 {
        out.line(&format!(
            "cannot run   {} points",
            grouped(estimate.broken as u64)
        ));
    }
    if estimate.sample > 0 {
        let (least, most) = estimate.spread;
        out.line(&format!(
            "a run        {} to {} of CPU time ({} tried)",
            time(least),
            time(most),
            estimate.sample
        ));
        out.line(&format!(
            "CPU hours    {:.3}",
            estimate.cpu.as_secs_f64() / 3600.0
        ));
        let wall = estimate.cpu / u32::try_from(jobs.get()).unwrap_or(u32::MAX);
        out.line(&format!(
            "here         {} with {jobs} at a time",
            time(wall)
        ));
    }
    out
}

/// A time with three digits.
fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6_000.0 => format!("{:.1} min", s / 60.0),
        s => format!("{:.1} h", s / 3_600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_few_digits() {
        let text = |seconds: f64| time(Duration::from_secs_f64(seconds));
        let texts = [0.012, 2.345, 240.0, 7_200.0].map(text);
        assert_eq!(texts, ["12 ms", "2.3 s", "4.0 min", "2.0 h"]);
    }
}
