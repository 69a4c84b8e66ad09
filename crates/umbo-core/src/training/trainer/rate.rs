//! The line on standard error that says how far an epoch is.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use super::state::PartOfEpoch;
use umbo_system::streams::write_error;

/// The time between two lines, on a terminal, where each replaces the one before, and elsewhere.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

/// A line with the rows, the rate, the time that is left and the loss.
pub(super) struct RateLine {
    name: &'static str,
    is_terminal: bool,
    began: Instant,
    shown: Instant,
    /// The steps that were done before.
    steps_before: u64,
}

impl RateLine {
    pub(super) fn new(name: &'static str, part: &PartOfEpoch) -> RateLine {
        let now = Instant::now();
        RateLine {
            name,
            is_terminal: std::io::stderr().is_terminal(),
            began: now,
            shown: now,
            steps_before: part.steps,
        }
    }

    /// Shows how far the epoch is, if it has not just been shown.
    pub(super) fn show(&mut self, part: &PartOfEpoch) {
        let now = Instant::now();
        let [on_terminal, elsewhere] = PAUSES;
        let pause = if self.is_terminal {
            on_terminal
        } else {
            elsewhere
        };
        if now - self.shown >= pause {
            self.shown = now;
            self.write(part, if self.is_terminal { "\r" } else { "\n" });
        }
    }

    /// Shows where the epoch has ended.
    pub(super) fn end(self, part: &PartOfEpoch) {
        self.write(part, "\n");
    }

    fn write(&self, part: &PartOfEpoch, end: &str) {
        let text = text(
            self.name,
            part,
            part.steps - self.steps_before,
            self.began.elapsed().as_secs_f64(),
        );
        // On a terminal the rest of a longer line before is cleared.
        let clear = if self.is_terminal { "\x1b[K" } else { "" };
        write_error(format!("{text}{clear}{end}").as_bytes());
    }
}

/// The line after `steps` steps in `seconds`.
fn text(name: &str, part: &PartOfEpoch, steps: u64, seconds: f64) -> String {
    let rows = |steps: u64| (steps as f64 * part.batch as f64).min(part.rows as f64);
    let done = rows(part.steps);
    let rate = (done - rows(part.steps - steps)) / seconds.max(1e-9);
    let left = (part.rows as f64 - done) / rate.max(1e-9);
    format!(
        "{name}: {done} of {} rows, {} rows/s, {} left, loss {:.6}",
        part.rows,
        rounded(rate),
        time(left),
        part.loss.mean()
    )
}

/// A rate with three digits that mean something.
fn rounded(rate: f64) -> String {
    match rate {
        ..100.0 => format!("{rate:.1}"),
        _ => format!("{rate:.0}"),
    }
}

/// A time as `1:02:03` or `2:03`.
fn time(seconds: f64) -> String {
    let seconds = seconds.min(1e9) as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_strategy::context::metrics::Metric;

    #[test]
    fn the_line_says_how_far_the_epoch_is() {
        let part = PartOfEpoch {
            rows: 1000,
            batch: 64,
            order: 0,
            steps: 5,
            loss: Metric {
                sum: 160.0,
                weight: 320.0,
            },
        };
        assert_eq!(
            text("epoch", &part, 5, 2.0),
            "epoch: 320 of 1000 rows, 160 rows/s, 0:04 left, loss 0.500000"
        );
        assert_eq!(
            text("epoch", &part, 1, 100.0),
            "epoch: 320 of 1000 rows, 0.6 rows/s, 17:42 left, loss 0.500000"
        );
        assert_eq!(time(7384.9), "2:03:04");
    }
}
