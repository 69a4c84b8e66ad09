//! The output of a benchmark of durations.

use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

use super::machine::ABOVE;
use super::memory::quantile;
use super::plot::Span;

/// The measured durations of one row.
pub struct Row {
    pub name: &'static str,
    /// The row with the best possible durations of the machine; a probe has none.
    pub probe: Option<&'static str>,
    durations: Vec<Duration>,
}

impl Row {
    pub fn new(name: &'static str, probe: Option<&'static str>) -> Row {
        Row {
            name,
            probe,
            durations: Vec::new(),
        }
    }

    pub fn add(&mut self, duration: Duration) {
        self.durations.push(duration);
    }

    /// The duration in microseconds that `percent` of the samples do not exceed.
    fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.durations.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted
            .get(rank - 1)
            .map_or(f64::NAN, |duration| duration.as_secs_f64() * 1e6)
    }

    fn probe_of<'a>(&self, rows: &'a [Row]) -> Option<&'a Row> {
        rows.iter().find(|row| Some(row.name) == self.probe)
    }

    /// The factor from the probe's median to this row's median.
    fn ratio(&self, rows: &[Row]) -> Option<f64> {
        Some(self.percentile(50) / self.probe_of(rows)?.percentile(50))
    }

    /// The median of each round, in microseconds. All rounds have the same number of samples.
    fn medians(&self, rounds: usize) -> Vec<f64> {
        let samples = (self.durations.len() / rounds.max(1)).max(1);
        let micros: Vec<f64> = self
            .durations
            .iter()
            .map(|each| each.as_secs_f64() * 1e6)
            .collect();
        micros
            .chunks(samples)
            .map(|round| quantile(round, 0.5))
            .collect()
    }

    /// For each round, the time of the probe in percent of this row's time.
    fn percents(&self, rows: &[Row], rounds: usize) -> Option<Vec<f64>> {
        let probe = self.probe_of(rows)?.medians(rounds);
        let pairs = self.medians(rounds).into_iter().zip(probe);
        Some(pairs.map(|(ours, probe)| 100.0 * probe / ours).collect())
    }
}

/// The rows for a drawing, from the median to the 99th percentile.
pub fn spans(rows: &[Row]) -> Vec<Span> {
    let span = |row: &Row| Span {
        name: row.name.to_owned(),
        middle: row.percentile(50),
        low: row.percentile(50),
        high: row.percentile(99),
        probe: row.probe_of(rows).map(|probe| probe.percentile(50)),
    };
    rows.iter().map(span).collect()
}

/// A readable table, in microseconds.
pub fn as_table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<28}{:>9}{:>9}{:>9}{:>9}  {}\n",
        "microseconds", "samples", "p50", "p90", "p99", "p50 / probe's p50"
    );
    for row in rows {
        let [p50, p90, p99] = [50, 90, 99].map(|percent| row.percentile(percent));
        let samples = row.durations.len();
        let mut line = format!("{:<28}{samples:>9}{p50:>9.2}{p90:>9.2}{p99:>9.2}", row.name);
        if let (Some(probe), Some(ratio)) = (row.probe, row.ratio(rows)) {
            // Writing to a string cannot fail.
            let _ = write!(line, "  {ratio:.2} ({probe})");
            if ratio < 1.0 {
                let _ = write!(line, " {ABOVE}");
            }
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// One line with a JSON object for each row, with `common` in each of them. A probe has no probe of
/// its own.
pub fn as_json(rows: &[Row], rounds: usize, common: &serde_json::Value) -> String {
    let mut text = String::new();
    for row in rows {
        let percents = row.percents(rows, rounds);
        let percent = |share| percents.as_ref().map(|percents| quantile(percents, share));
        let mut object = json!({
            "benchmark": "run",
            "name": row.name,
            "rounds": rounds,
            "samples": row.durations.len(),
            "p50_us": row.percentile(50),
            "p90_us": row.percentile(90),
            "p99_us": row.percentile(99),
            "probe": row.probe,
            "ratio": row.ratio(rows),
            "ours_us": row.percentile(50),
            "probe_us": row.probe_of(rows).map(|probe| probe.percentile(50)),
            "percent_of_roof": percent(0.5),
            "percent_of_roof_lower_quartile": percent(0.25),
            "percent_of_roof_upper_quartile": percent(0.75),
        });
        if let (Some(object), Some(common)) = (object.as_object_mut(), common.as_object()) {
            object.extend(common.clone());
        }
        text.push_str(&object.to_string());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_ratios() {
        let mut probe = Row::new("probe", None);
        let mut row = Row::new("row", Some("probe"));
        for micros in 1..=100 {
            probe.add(Duration::from_micros(micros));
            row.add(Duration::from_micros(3 * micros));
        }
        assert_eq!(
            [50, 90, 99].map(|percent| probe.percentile(percent)),
            [50.0, 90.0, 99.0]
        );
        let rows = [probe, row];
        assert_eq!(rows[1].ratio(&rows), Some(3.0));
        assert_eq!(rows[0].ratio(&rows), None);
        assert_eq!(rows[1].medians(50)[..2], [4.5, 10.5]);
        assert_eq!(rows[0].percents(&rows, 50), None);
        let lines = as_json(&rows, 50, &json!({"replicas": 2}));
        let lines: Vec<serde_json::Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(lines[0]["percent_of_roof"].is_null() && lines[0]["probe_us"].is_null());
        for name in ["", "_lower_quartile", "_upper_quartile"] {
            let percent = lines[1][format!("percent_of_roof{name}")].as_f64().unwrap();
            assert!((percent - 100.0 / 3.0).abs() < 1e-9, "{percent}");
        }
        assert_eq!(
            (&lines[1]["ours_us"], &lines[1]["probe_us"]),
            (&json!(150.0), &json!(50.0))
        );
        assert_eq!(spans(&rows)[1].probe, Some(50.0));
        let table = as_table(&rows);
        assert!(
            table.contains("3.00 (probe)") && !table.contains(ABOVE),
            "{table}"
        );
        let [mut probe, row] = rows;
        (1..=200).for_each(|_| probe.add(Duration::from_secs(1)));
        assert!(as_table(&[probe, row]).contains(&format!("(probe) {ABOVE}")));
    }
}
