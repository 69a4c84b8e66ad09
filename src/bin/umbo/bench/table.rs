//! What a benchmark of durations prints.

use std::fmt::Write;
use std::time::Duration;

use serde_json::json;

/// The durations measured for one row.
pub struct Row {
    pub name: &'static str,
    /// The row that shows what the machine can do at best; a probe has none.
    pub probe: Option<&'static str>,
    durations: Vec<Duration>,
}

impl Row {
    pub fn new(name: &'static str, probe: Option<&'static str>) -> Row {
        Row { name, probe, durations: Vec::new() }
    }

    pub fn add(&mut self, duration: Duration) {
        self.durations.push(duration);
    }

    /// The duration in microseconds that `percent` of the samples do not exceed.
    fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.durations.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).map_or(f64::NAN, |duration| duration.as_secs_f64() * 1e6)
    }

    /// How many times the probe's median this row's median is.
    fn ratio(&self, rows: &[Row]) -> Option<f64> {
        let probe = rows.iter().find(|row| Some(row.name) == self.probe)?;
        Some(self.percentile(50) / probe.percentile(50))
    }
}

/// A table for people, in microseconds.
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
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// One JSON object a line and row, with `common` in each of them.
pub fn as_json(rows: &[Row], common: &serde_json::Value) -> String {
    let mut text = String::new();
    for row in rows {
        let mut object = json!({
            "name": row.name,
            "samples": row.durations.len(),
            "p50_us": row.percentile(50),
            "p90_us": row.percentile(90),
            "p99_us": row.percentile(99),
            "probe": row.probe,
            "ratio": row.ratio(rows),
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
        let (mut probe, mut row) = (Row::new("probe", None), Row::new("row", Some("probe")));
        for micros in 1..=100 {
            probe.add(Duration::from_micros(micros));
            row.add(Duration::from_micros(3 * micros));
        }
        assert_eq!([50, 90, 99].map(|percent| probe.percentile(percent)), [50.0, 90.0, 99.0]);
        let rows = [probe, row];
        assert_eq!(rows[1].ratio(&rows), Some(3.0));
        assert_eq!(rows[0].ratio(&rows), None);
        assert_eq!(as_json(&rows, &json!({"replicas": 2})).lines().count(), 2);
        assert!(as_table(&rows).contains("3.00 (probe)"));
    }
}
