//! What else the machine did while a benchmark ran.
//!
//! A figure beside a probe says little where other processes come and go: they may slow down the one and
//! not the other. So each benchmark says how busy others were, from the counters of the kernel.

use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::{Value, json};

/// From this share of one processor on, others count as busy.
const BUSY: f64 = 0.1;

/// Stands behind a figure that is better than that of its probe.
pub const ABOVE: &str = "above its probe";

/// The time since which others are watched.
pub struct Watch {
    begun: Instant,
    /// All processors' busy time and this process's, in ticks of the kernel's clock.
    ticks: Option<(u64, u64)>,
}

impl Watch {
    /// From now on.
    pub fn begin() -> Watch {
        Watch { begun: Instant::now(), ticks: ticks() }
    }

    /// How many processors others have used since. `None` where the system does not tell.
    pub fn others(&self) -> Option<f64> {
        let ((all, own), (all_before, own_before)) = (ticks()?, self.ticks?);
        let of_others = (all - all_before).saturating_sub(own - own_before);
        // The kernel shows programs a hundred ticks a second, on every processor.
        let seconds = self.begun.elapsed().as_secs_f64();
        (seconds > 0.0).then(|| of_others as f64 / 100.0 / seconds)
    }
}

/// From this share of all processors on, what is measured says little.
const TOO_BUSY: f64 = 0.25;
/// What the counters of the kernel need to say something.
const LOOK: Duration = Duration::from_millis(100);

/// Says at once, and not when all is measured, if others keep the machine busy.
pub fn warn_if_busy() {
    let watch = Watch::begin();
    thread::sleep(LOOK);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    if let Some(warning) = watch.others().and_then(|others| too_busy(others, processors)) {
        eprintln!("umbo: {warning}");
    }
}

fn too_busy(others: f64, processors: usize) -> Option<String> {
    (others >= TOO_BUSY * processors as f64).then(|| {
        format!(
            "other processes (or other guests of this machine's host) use {others:.1} of {processors} \
             processors: the figures will mean little"
        )
    })
}

/// What the kernel counted so far: the time in which processors were busy (also for other guests of the
/// same host), and this process's part of it.
fn ticks() -> Option<(u64, u64)> {
    let all = busy_ticks(&fs::read_to_string("/proc/stat").ok()?)?;
    let own = own_ticks(&fs::read_to_string("/proc/self/stat").ok()?)?;
    Some((all, own))
}

/// Of the first line of `/proc/stat`: user, nice, system, (idle, waiting,) interrupts of two kinds, and
/// what the host gave to others.
fn busy_ticks(stat: &str) -> Option<u64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    Some([0, 1, 2, 5, 6, 7].into_iter().filter_map(|field| fields.get(field)).sum())
}

/// Of `/proc/self/stat`: the 14th and 15th field, user and system. The second is a name in parentheses
/// that may have spaces in it.
fn own_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Adds to what a benchmark prints how busy others were: to each JSON object the number of processors
/// that they used and whether the figure is above its probe; to a table what that means, if they were
/// busy or a figure is above its probe.
pub fn annotate(text: String, others: Option<f64>) -> String {
    if text.starts_with('{') {
        return text.lines().map(|line| annotate_object(line, others) + "\n").collect();
    }
    let mut text = text;
    let busy = others.filter(|&others| others >= BUSY);
    if let Some(others) = busy {
        text += &format!(
            "\nThe machine was busy: other processes (or other guests of its host) used {others:.1} \
             processors meanwhile. Measure again when it is quiet.\n"
        );
    }
    if text.contains(ABOVE) {
        text += match busy {
            Some(_) => {
                "\nA figure above its probe is no wonder then: the probe was disturbed more than the \
                 library.\n"
            }
            None => {
                "\nA figure above its probe: there the probe is no roof, but a loop that does about the \
                 same.\n"
            }
        };
    }
    text
}

fn annotate_object(line: &str, others: Option<f64>) -> String {
    let Ok(Value::Object(mut object)) = serde_json::from_str(line) else { return line.to_owned() };
    let percent = object.get("percent_of_roof").and_then(Value::as_f64);
    object.insert("processors_busy_with_others".into(), json!(others));
    object.insert("above_its_probe".into(), json!(percent.map(|percent| percent > 100.0)));
    Value::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        let stat = "cpu  100 20 3 4000 500 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(busy_ticks(stat), Some(100 + 20 + 3 + 6 + 7 + 8));
        let own = "42 (a name) with) S 1 2 3 4 5 6 7 8 9 10 250 30 0 0 20 0";
        assert_eq!(own_ticks(own), Some(280));
        assert_eq!((busy_ticks("intr 1"), own_ticks("42 S")), (None, None));
        assert!(Watch::begin().others().is_none_or(|others| others >= 0.0));
    }

    #[test]
    fn a_machine_that_is_too_busy_is_told_beforehand() {
        assert_eq!(too_busy(0.4, 2), None);
        let warning = too_busy(1.9, 2).unwrap();
        assert!(
            warning.contains("use 1.9 of 2 processors: the figures will mean little"),
            "{warning}"
        );
    }

    #[test]
    fn a_busy_machine_is_named() {
        let table = || "GB/s\n1.0\n".to_owned();
        assert_eq!(annotate(table(), Some(0.02)), table());
        assert_eq!(annotate(table(), None), table());
        let busy = annotate(table(), Some(1.52));
        assert!(busy.starts_with(&table()) && busy.contains("used 1.5 processors"), "{busy}");
        let above = format!("302.0 {ABOVE}\n");
        let quiet = annotate(above.clone(), Some(0.0));
        assert!(quiet.contains("no roof") && !quiet.contains("busy"), "{quiet}");
        let disturbed = annotate(above, Some(2.0));
        assert!(disturbed.contains("The machine was busy"), "{disturbed}");
        assert!(disturbed.contains("was disturbed"), "{disturbed}");
    }

    #[test]
    fn objects_say_both() {
        let lines = "{\"percent_of_roof\":302.0}\n{\"percent_of_roof\":80.0}\n{\"ratio\":1}\n";
        let annotated = annotate(lines.to_owned(), Some(1.5));
        let rows: Vec<Value> =
            annotated.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let above: Vec<&Value> = rows.iter().map(|row| &row["above_its_probe"]).collect();
        assert_eq!(above, [&json!(true), &json!(false), &Value::Null]);
        assert!(rows.iter().all(|row| row["processors_busy_with_others"] == json!(1.5)));
    }
}
