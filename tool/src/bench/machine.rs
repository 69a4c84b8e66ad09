//! Measures the load of other processes while a benchmark runs.
//!
//! If other processes come and go, a comparison with a probe says little, because they may slow
//! down one and not the other. So each benchmark reports the load of others, from the kernel's
//! counters.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use umbo_core::diagnose::machine::{Load, Watch};

/// If others use at least this part of one processor, they count as busy.
const BUSY: f64 = 0.1;

/// The text after a figure that is better than that of its probe.
pub const ABOVE: &str = "above its probe";

/// If others use at least this part of all processors, measurements say little.
const TOO_BUSY: f64 = 0.25;
/// The time that the kernel's counters need for a result.
const LOOK: Duration = Duration::from_millis(110);

/// The present load of others. `None` if the system does not report it.
pub fn load_now() -> Option<Load> {
    let watch = Watch::begin();
    thread::sleep(LOOK);
    watch.load()
}

/// Warns before the measurements, and not after them, if others keep the machine busy.
pub fn warn_if_busy() {
    if let Some(warning) = load_now().and_then(too_busy) {
        eprintln!("umbo: {warning}");
    }
}

fn too_busy(load: Load) -> Option<String> {
    (load.others >= TOO_BUSY * f64::from(load.processors))
        .then(|| format!("{}: the figures will mean little", load.in_words("use")))
}

/// Adds the load of others to the output of a benchmark. Each JSON object gets the number of
/// processors that others used, and whether the figure is above its probe. If others were busy or a
/// figure is above its probe, a table gets an explanation.
pub fn annotate(text: String, others: Option<f64>) -> String {
    if text.starts_with('{') {
        return text
            .lines()
            .map(|line| annotate_object(line, others) + "\n")
            .collect();
    }
    let mut text = text;
    let busy = others.filter(|&others| others >= BUSY);
    if let Some(others) = busy {
        text += &format!(
            "\nThe machine was busy: other processes (or other guests of its host) used \
             {others:.1} processors meanwhile. Measure again when it is quiet.\n"
        );
    }
    if text.contains(ABOVE) {
        text += match busy {
            Some(_) => {
                "\nA figure above its probe is to be expected then: the probe was disturbed more \
                 than the library.\n"
            }
            None => {
                "\nA figure above its probe: there the probe is not a roof, but a loop that does \
                 about the same.\n"
            }
        };
    }
    text
}

fn annotate_object(line: &str, others: Option<f64>) -> String {
    let Ok(Value::Object(mut object)) = serde_json::from_str(line) else {
        return line.to_owned();
    };
    let percent = object.get("percent_of_roof").and_then(Value::as_f64);
    object.insert("processors_busy_with_others".into(), json!(others));
    object.insert(
        "above_its_probe".into(),
        json!(percent.map(|percent| percent > 100.0)),
    );
    Value::Object(object).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_too_busy_is_told_beforehand() {
        let load = |others| Load {
            others,
            processors: 2,
        };
        assert_eq!(too_busy(load(0.4)), None);
        let warning = too_busy(load(1.9)).unwrap();
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
        assert!(
            busy.starts_with(&table()) && busy.contains("used 1.5 processors"),
            "{busy}"
        );
        let above = format!("302.0 {ABOVE}\n");
        let quiet = annotate(above.clone(), Some(0.0));
        assert!(
            quiet.contains("not a roof") && !quiet.contains("busy"),
            "{quiet}"
        );
        let disturbed = annotate(above, Some(2.0));
        assert!(disturbed.contains("The machine was busy"), "{disturbed}");
        assert!(disturbed.contains("was disturbed"), "{disturbed}");
    }

    #[test]
    fn objects_say_both() {
        let lines = "{\"percent_of_roof\":302.0}\n{\"percent_of_roof\":80.0}\n{\"ratio\":1}\n";
        let annotated = annotate(lines.to_owned(), Some(1.5));
        let rows: Vec<Value> = annotated
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let above: Vec<&Value> = rows.iter().map(|row| &row["above_its_probe"]).collect();
        assert_eq!(above, [&json!(true), &json!(false), &Value::Null]);
        assert!(
            rows.iter()
                .all(|row| row["processors_busy_with_others"] == json!(1.5))
        );
    }
}
