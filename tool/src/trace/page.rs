//! The page: a frame, and the trace as data that is drawn in it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::file::{Row, Trace};

/// A page that shows the earliest `most` spans of a trace that began at `from` or later, and the
/// number of its rows.
pub fn page(title: &str, trace: &Trace, report: &str, from: u64, most: usize) -> (String, usize) {
    let data = data(title, trace, report, from, most);
    let rows = data["rows"].as_array().map_or(0, Vec::len);
    let data = data.to_string();
    // No text in the script may end the script, whatever the names of spans are.
    let data = data.replace('<', "\\u003c").replace("\u{2028}", "\\u2028");
    let page = include_str!("page.html")
        .replace("/*STYLE*/", include_str!("page.css"))
        .replace("/*SCRIPT*/", include_str!("page.js"))
        .replace("/*DATA*/", &data);
    (page, rows)
}

fn data(title: &str, trace: &Trace, report: &str, from: u64, most: usize) -> serde_json::Value {
    let mut order = spans_from(trace, from);
    let left_out = order.len().saturating_sub(most);
    order.truncate(most);
    let begin = order.first().map_or(0, |&at| trace.spans[at].start);

    let shown = order.iter().map(|&at| &trace.spans[at]);
    let threads: BTreeSet<(u64, u64)> = shown.map(|span| (span.process, span.thread)).collect();
    let mut rows: Vec<&Row> = trace.rows.iter().collect();
    rows.retain(|row| threads.contains(&(row.process, row.thread)));
    rows.sort_by_key(|row| (row.process, row.order, row.thread));
    let of_thread: BTreeMap<(u64, u64), usize> = rows
        .iter()
        .enumerate()
        .map(|(at, row)| ((row.process, row.thread), at))
        .collect();
    let several = rows.iter().any(|row| row.process != rows[0].process);
    let label = |row: &Row| match several {
        true => format!("{}: {}", row.process, row.label),
        false => row.label.clone(),
    };

    let mut names: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    // The spans that are open on each row determine how deep a span is.
    let mut open: Vec<Vec<u64>> = vec![Vec::new(); rows.len()];
    let mut spans = Vec::with_capacity(order.len());
    for span in order.iter().map(|&at| &trace.spans[at]) {
        let Some(&row) = of_thread.get(&(span.process, span.thread)) else {
            continue;
        };
        let end = span.start + span.duration;
        while open[row].last().is_some_and(|&until| until <= span.start) {
            open[row].pop();
        }
        let depth = open[row].len();
        open[row].push(end);
        let next = names.len();
        let name = *names.entry((&span.name, &span.category)).or_insert(next);
        let step = span.arguments.get("step").cloned().unwrap_or_default();
        let bytes = span.arguments.get("bytes").cloned().unwrap_or_default();
        spans.push(json!([
            row,
            name,
            span.start - begin,
            span.duration,
            depth,
            step,
            bytes
        ]));
    }
    let mut by_number = vec![("", ""); names.len()];
    for (name, at) in names {
        by_number[at] = name;
    }
    json!({
        "title": title,
        "report": report,
        "left_out": left_out,
        "rows": rows.iter().map(|row| label(row)).collect::<Vec<_>>(),
        "names": by_number,
        "spans": spans,
        "counters": counters(trace, begin),
    })
}

/// The spans from a time on, in the order of their beginnings; of those that begin together the
/// longest comes first, because it is around the others.
fn spans_from(trace: &Trace, from: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..trace.spans.len()).collect();
    order.retain(|&at| trace.spans[at].start >= from);
    order.sort_by_key(|&at| {
        (
            trace.spans[at].start,
            std::cmp::Reverse(trace.spans[at].duration),
        )
    });
    order
}

/// The bytes of each name over time, from `begin` on, of names that have any.
fn counters(trace: &Trace, begin: u64) -> BTreeMap<&str, Vec<[u64; 2]>> {
    let mut counts: Vec<_> = trace.counts.iter().collect();
    counts.sort_by_key(|counts| counts.time);
    let mut counters: BTreeMap<&str, Vec<[u64; 2]>> = BTreeMap::new();
    for counts in counts.iter().filter(|counts| counts.time >= begin) {
        for (name, bytes) in &counts.bytes {
            counters
                .entry(name)
                .or_default()
                .push([counts.time - begin, *bytes]);
        }
    }
    counters.retain(|_, points| points.last().is_some_and(|last| last[1] > 0));
    counters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::file::Span;

    fn span(thread: u64, name: &str, start: u64, duration: u64) -> Span {
        Span {
            process: 1,
            thread,
            name: name.into(),
            category: "program".into(),
            start,
            duration,
            arguments: Default::default(),
        }
    }

    fn trace() -> Trace {
        let row = |thread, label: &str, order| Row {
            process: 1,
            thread,
            label: label.into(),
            order,
        };
        Trace {
            spans: vec![
                span(5, "inside", 1200, 100),
                span(5, "outside", 1000, 500),
                span(4, "</script><b>", 1100, 50),
            ],
            rows: vec![row(5, "replica 1", 1), row(4, "replica 0", 0)],
            ..Trace::default()
        }
    }

    #[test]
    fn spans_know_row_and_depth() {
        let data = data("t", &trace(), "", 0, 10);
        assert_eq!(data["rows"], json!(["replica 0", "replica 1"]));
        let spans = data["spans"].as_array().unwrap();
        assert_eq!(spans[0], json!([1, 0, 0, 500, 0, null, null]));
        assert_eq!(spans[2], json!([1, 2, 200, 100, 1, null, null]));
        assert_eq!(data["names"][2][0], "inside");
    }

    #[test]
    fn a_page_from_a_step_on_has_no_rows_without_spans() {
        let data = data("t", &trace(), "", 1101, 10);
        assert_eq!(data["rows"], json!(["replica 1"]));
        assert_eq!(data["spans"], json!([[0, 0, 0, 100, 0, null, null]]));
        assert_eq!(data["left_out"], 0);
    }

    #[test]
    fn names_cannot_end_the_script_and_too_much_is_left_out() {
        let (page, rows) = page("t", &trace(), "<i>", 0, 2);
        assert_eq!(rows, 2);
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains("<b>") && !page.contains("<i>"));
        assert!(page.contains("\"left_out\":1"), "{page}");
        assert!(!page.contains("http://") && !page.contains("https://"));
    }
}
