//! Reads a trace that the library wrote. It may be complete, or incomplete because its process
//! ended.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};
use umbo_core::diagnose::machine::Load;

use crate::failure::Failure;

/// The contents of a trace.
#[derive(Debug, Default)]
pub struct Trace {
    pub spans: Vec<Span>,
    pub counts: Vec<Counts>,
    pub rows: Vec<Row>,
    /// The number of events that were dropped because there were too many.
    pub dropped: u64,
    /// The threads that do not belong to the library: number, name, and nanoseconds on a
    /// processor.
    pub others: Vec<(u32, String, u64)>,
    /// The load of other processes, if it is known. With several processes, it is that of the
    /// first.
    pub load: Option<Load>,
    /// Whether the file is complete.
    pub whole: bool,
}

/// An activity with a duration. Times are in nanoseconds.
#[derive(Debug)]
pub struct Span {
    pub process: u64,
    pub thread: u64,
    pub name: String,
    pub category: String,
    pub start: u64,
    pub duration: u64,
    pub arguments: Map<String, Value>,
}

impl Span {
    /// A number among the span's arguments; 0 if there is none.
    pub fn number(&self, name: &str) -> u64 {
        self.arguments
            .get(name)
            .and_then(Value::as_u64)
            .unwrap_or(0)
    }
}

/// The bytes that were counted up to some moment.
#[derive(Debug)]
pub struct Counts {
    pub time: u64,
    pub bytes: Vec<(String, u64)>,
}

/// A thread of the trace.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub process: u64,
    pub thread: u64,
    pub label: String,
    /// Its position among the threads of its process.
    pub order: u64,
}

/// No time is later, and no duration longer, than a century, so that the sum of two does not
/// overflow, whatever a file contains.
const MOST_NANOSECONDS: u64 = 3_155_760_000_000_000_000;

/// Reads a trace. If the file ends early, everything before its end is read.
pub fn read(path: &Path) -> Result<Trace, Failure> {
    let file = File::open(path).map_err(|error| Failure::of_file(path, error))?;
    let mut lines = BufReader::new(file).lines();
    let no_trace = |why: String| {
        let expected = "a trace is expected, as umbo_trace_start() or UMBO_TRACE write it";
        Failure::of_file(path, format!("{why}; {expected}"))
    };
    match lines.next() {
        Some(Ok(first)) if first == "[" => {}
        Some(Err(error)) => return Err(no_trace(error.to_string())),
        _ => return Err(no_trace("the first line is not '['".into())),
    }
    let mut trace = Trace::default();
    let mut unread = None;
    for (number, line) in (2..).zip(lines) {
        // Only the last line may be incomplete.
        if let Some(problem) = unread.take() {
            return Err(no_trace(problem));
        }
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                unread = Some(format!("line {number}: {error}"));
                continue;
            }
        };
        let line = line.trim_end().trim_end_matches(',');
        match line {
            "" => continue,
            "]" => {
                trace.whole = true;
                continue;
            }
            _ => {}
        }
        match serde_json::from_str::<Map<String, Value>>(line) {
            Ok(event) => trace.add(event),
            Err(error) => unread = Some(format!("line {number} is not an event: {error}")),
        }
    }
    Ok(trace)
}

impl Trace {
    fn add(&mut self, mut event: Map<String, Value>) {
        let text = |event: &Map<String, Value>, name: &str| {
            event
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let whole = |event: &Map<String, Value>, name: &str| {
            event.get(name).and_then(Value::as_u64).unwrap_or(0)
        };
        let time = |event: &Map<String, Value>, name: &str| {
            let microseconds = event.get(name).and_then(Value::as_f64).unwrap_or(0.0);
            ((microseconds.max(0.0) * 1000.0).round() as u64).min(MOST_NANOSECONDS)
        };
        let arguments = match event.remove("args") {
            Some(Value::Object(arguments)) => arguments,
            _ => Map::new(),
        };
        let process = whole(&event, "pid");
        let thread = whole(&event, "tid");
        match (text(&event, "ph").as_str(), text(&event, "name").as_str()) {
            ("X", name) => self.spans.push(Span {
                process,
                thread,
                name: name.to_owned(),
                category: text(&event, "cat"),
                start: time(&event, "ts"),
                duration: time(&event, "dur"),
                arguments,
            }),
            ("C", _) => self.counts.push(Counts {
                time: time(&event, "ts"),
                bytes: arguments
                    .into_iter()
                    .filter_map(|(name, bytes)| Some((name, bytes.as_u64()?)))
                    .collect(),
            }),
            ("M", "thread_name") => self.row(process, thread).label = text(&arguments, "name"),
            ("M", "thread_sort_index") => {
                self.row(process, thread).order = whole(&arguments, "sort_index");
            }
            ("M", "summary") => {
                self.dropped += whole(&arguments, "dropped");
                let busy = arguments.get("busy_with_others").and_then(Value::as_f64);
                let processors = u32::try_from(whole(&arguments, "allowed_processors"));
                if let (None, Some(others), Ok(processors)) = (self.load, busy, processors) {
                    self.load = Some(Load { others, processors });
                }
                let others = arguments.get("other_threads").and_then(Value::as_array);
                for other in others.into_iter().flatten().filter_map(Value::as_object) {
                    let number = u32::try_from(whole(other, "thread")).unwrap_or(0);
                    let used = whole(other, "on_processor_ns");
                    self.others.push((number, text(other, "name"), used));
                }
            }
            _ => {}
        }
    }

    fn row(&mut self, process: u64, thread: u64) -> &mut Row {
        let at = self
            .rows
            .iter()
            .position(|row| (row.process, row.thread) == (process, thread));
        let at = at.unwrap_or_else(|| {
            let label = format!("thread {thread}");
            self.rows.push(Row {
                process,
                thread,
                label,
                order: u64::MAX,
            });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = concat!(
        "[\n",
        r#"{"name":"thread_name","ph":"M","pid":3,"tid":4,"args":{"name":"replica 1"}},"#,
        "\n",
        r#"{"name":"step","cat":"step","ph":"X","pid":3,"tid":4,"ts":1.5,"dur":2.25,"#,
        r#""args":{"step":9}},"#,
        "\n",
        r#"{"name":"bytes","ph":"C","pid":3,"tid":4,"ts":2,"args":{"copied":7}},"#,
        "\n",
        r#"{"name":"summary","ph":"M","pid":3,"tid":0,"args":{"events":1,"dropped":5,"#,
        r#""other_threads":[{"thread":8,"name":"blas","on_processor_ns":6}],"#,
        r#""busy_with_others":1.5,"allowed_processors":2}}"#,
        "\n]\n"
    );

    fn read_text(name: &str, text: &str) -> Result<Trace, Failure> {
        let path = std::env::temp_dir().join(format!("umbo-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let read = read(&path);
        std::fs::remove_file(&path).unwrap();
        read
    }

    #[test]
    fn a_whole_trace_is_read() {
        let trace = read_text("whole", WHOLE).unwrap();
        assert!(trace.whole);
        assert_eq!(
            (trace.spans[0].start, trace.spans[0].duration),
            (1500, 2250)
        );
        assert_eq!(
            (trace.spans[0].number("step"), trace.spans[0].number("none")),
            (9, 0)
        );
        assert_eq!(trace.counts[0].bytes, [("copied".to_owned(), 7)]);
        assert_eq!(trace.rows[0].label, "replica 1");
        assert_eq!((trace.dropped, trace.others[0].1.as_str()), (5, "blas"));
        assert_eq!(
            trace.load,
            Some(Load {
                others: 1.5,
                processors: 2
            })
        );
    }

    #[test]
    fn times_that_no_clock_has_can_be_added() {
        let text =
            "[\n{\"name\":\"step\",\"cat\":\"step\",\"ph\":\"X\",\"ts\":1e300,\"dur\":1e300}\n]\n";
        let trace = read_text("late", text).unwrap();
        assert!(
            trace.spans[0]
                .start
                .checked_add(trace.spans[0].duration)
                .is_some()
        );
    }

    /// If the process died at any point, everything that it had written is read.
    #[test]
    fn truncated_traces_are_read_as_far_as_they_go() {
        for end in 2..WHOLE.len() {
            let trace = read_text("cut", &WHOLE[..end]).unwrap();
            assert!(trace.spans.len() <= 1 && trace.rows.len() <= 1);
            assert_eq!(
                trace.whole,
                WHOLE[..end].trim_end().ends_with("\n]"),
                "{end}"
            );
        }
    }

    #[test]
    fn files_that_are_no_traces_are_refused() {
        for text in ["", "{}", "[]", "[\nnonsense\n{}\n]\n"] {
            let error = read_text("other", text).unwrap_err().to_string();
            assert!(error.contains("a trace is expected"), "{error}");
        }
        let missing = read(Path::new("/nowhere/trace.json"))
            .unwrap_err()
            .to_string();
        assert!(missing.starts_with("/nowhere/trace.json: "), "{missing}");
    }
}
