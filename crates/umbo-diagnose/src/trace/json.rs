//! Events as lines of JSON, in the format of Chrome's trace viewer.

use std::borrow::Cow;
use std::fmt::Write;

use serde_json::{Value as Json, json};

use super::entry::{Account, Detail, Entry};
use crate::machine::Load;
use crate::processes::Other;
use umbo_base::observe::phase::{ByPhase, Counter, Phase};

/// The largest length in the file of a thread's or a span's name, in bytes.
pub(super) const LONGEST_NAME: usize = 200;

/// A line that names the process.
pub(super) fn process(text: &mut String, process: u32, rank: Option<u32>) {
    let name = match rank {
        Some(rank) => format!("rank {rank}"),
        None => "umbo".to_owned(),
    };
    line(text, "process_name", process, 0, &json!({ "name": name }));
    line(
        text,
        "process_sort_index",
        process,
        0,
        &json!({ "sort_index": rank.unwrap_or(0) }),
    );
}

/// Lines that name a thread, and the replica that it runs.
pub(super) fn thread(
    text: &mut String,
    process: u32,
    thread: u32,
    name: &str,
    replica: Option<u32>,
) {
    let shown = match replica {
        Some(replica) if name == format!("umbo-replica-{replica}") => format!("replica {replica}"),
        Some(replica) => format!("replica {replica} (calling thread {name})"),
        None => name.to_owned(),
    };
    line(
        text,
        "thread_name",
        process,
        thread,
        &json!({ "name": shortened(&shown) }),
    );
    let order = replica.unwrap_or(1_000_000);
    line(
        text,
        "thread_sort_index",
        process,
        thread,
        &json!({ "sort_index": order }),
    );
}

fn line(text: &mut String, name: &str, process: u32, thread: u32, arguments: &Json) {
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{{\"name\":\"{name}\",\"ph\":\"M\",\"pid\":{process},\"tid\":{thread},\"args\":\
         {arguments}}},"
    );
}

/// The line of an event.
pub(super) fn event(text: &mut String, process: u32, thread: u32, entry: &Entry) {
    let Entry { event, detail } = entry;
    let name = match &event.name {
        Cow::Borrowed(name) => format!("\"{name}\""),
        Cow::Owned(name) => Json::from(shortened(name)).to_string(),
    };
    let _ = write!(
        text,
        "{{\"name\":{name},\"cat\":\"{}\",\"ph\":\"X\",\"pid\":{process},\"tid\":{thread},\"ts\":\
         {},\"dur\":{}",
        event.category,
        Microseconds(event.start),
        Microseconds(event.duration)
    );
    text.push_str(",\"args\":{");
    match detail {
        Detail::None if event.bytes > 0 => number(text, "bytes", event.bytes),
        Detail::None => {}
        Detail::Replica(place, replica, sample) => {
            number(text, "strategy", place.strategy);
            number(text, "step", place.step);
            number(text, "replica", (*replica).into());
            number(text, "begun_ns", sample.begun);
            number(text, "wall_ns", sample.wall);
            phases(text, "", &sample.spent);
            if let Some(clocks) = sample.clocks {
                number(text, "on_processor_ns", clocks.on_processor);
                number(text, "ready_ns", clocks.ready);
            }
        }
        Detail::Step(place, sample, _) => {
            number(text, "strategy", place.strategy);
            number(text, "step", place.step);
            number(text, "replicas", place.setup.replicas.into());
            number(text, "devices", place.setup.devices.into());
            number(text, "cpu_devices", place.setup.cpu_devices.into());
            number(text, "processors", place.setup.processors.into());
            number(text, "period_ns", sample.period);
            number(text, "run_ns", sample.run);
            number(text, "updated_bytes", sample.updated);
            phases(text, "", &sample.central);
            phases(text, "before_", &sample.before);
        }
    }
    text.push_str("}},\n");
    if let Detail::Step(.., counts) = detail {
        let end = Microseconds(event.start + event.duration);
        let _ = write!(
            text,
            "{{\"name\":\"bytes\",\"ph\":\"C\",\"pid\":{process},\"tid\":{thread},\"ts\":{end},\"\
             args\":{{"
        );
        for counter in Counter::ALL {
            number(text, counter.name(), counts[counter as usize]);
        }
        text.push_str("}},\n");
    }
}

fn number(text: &mut String, name: &str, number: u64) {
    let comma = if text.ends_with('{') { "" } else { "," };
    let _ = write!(text, "{comma}\"{name}\":{number}");
}

fn phases(text: &mut String, prefix: &str, spent: &ByPhase<u64>) {
    for phase in Phase::ALL {
        let nanoseconds = spent[phase as usize];
        if nanoseconds > 0 {
            let _ = write!(text, ",\"{prefix}{}_ns\":{nanoseconds}", phase.name());
        }
    }
}

/// The last line: the number of events, the threads that worked at the same time and do not belong
/// to the library, and the load of other processes.
pub(super) fn summary(
    text: &mut String,
    process: u32,
    account: Account,
    others: &[Other],
    load: Option<Load>,
) {
    let threads: Vec<Json> = others
        .iter()
        .map(
            |Other {
                 thread,
                 name,
                 nanoseconds,
             }| {
                json!({ "thread": thread, "name": shortened(name), "on_processor_ns": nanoseconds })
            },
        )
        .collect();
    let Account { events, dropped } = account;
    let mut arguments = json!({ "events": events, "dropped": dropped, "other_threads": threads });
    if let Some(Load { others, processors }) = load {
        arguments["busy_with_others"] = json!(others);
        arguments["allowed_processors"] = json!(processors);
    }
    line(text, "summary", process, 0, &arguments);
    // Nothing follows, so the line ends without a comma.
    text.truncate(text.len() - 2);
    text.push('\n');
}

/// The text, shortened to the largest length of names.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_NAME)]
}

/// Nanoseconds, written in the microseconds of the format.
struct Microseconds(u64);

impl std::fmt::Display for Microseconds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_base::observe::trace::Event;

    #[test]
    fn names_are_escaped_and_cut_between_characters() {
        for name in [
            "plain",
            "a \"quoted\" one",
            "back\\slash\n",
            "\u{0}\u{1f}\u{7f}",
        ] {
            let mut text = String::new();
            event(
                &mut text,
                1,
                2,
                &Event::of(name.to_owned(), "", 0, 0, 0).into(),
            );
            let read: Json = serde_json::from_str(text.trim_end_matches(",\n")).unwrap();
            assert_eq!(read["name"], *name);
        }
        let long = format!("{}{}", "x".repeat(LONGEST_NAME - 1), "\u{1f600}");
        assert_eq!(shortened(&long), "x".repeat(LONGEST_NAME - 1));
    }

    #[test]
    fn times_keep_their_nanoseconds() {
        assert_eq!(Microseconds(1_234_567_089).to_string(), "1234567.089");
        assert_eq!(Microseconds(7).to_string(), "0.007");
    }
}
