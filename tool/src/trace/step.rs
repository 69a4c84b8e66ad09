//! Draws one step of a trace, with the activity of each thread.

use std::collections::BTreeMap;

use super::file::{Row, Span, Trace};

/// A part of a row, with its start and end, in nanoseconds from the beginning of the drawing.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub name: String,
    pub category: String,
    pub start: f64,
    pub end: f64,
    /// The number of other pieces of the row in which it is nested.
    pub depth: usize,
}

/// The activity of one thread.
#[derive(Debug, PartialEq)]
pub struct Lane {
    pub label: String,
    pub pieces: Vec<Piece>,
}

/// A step, from the end of the step before it.
#[derive(Debug, PartialEq)]
pub struct Picture {
    pub number: u64,
    /// The length of the drawing, in nanoseconds.
    pub length: f64,
    pub lanes: Vec<Lane>,
}

/// The step with this number.
pub fn picture(trace: &Trace, number: Option<u64>) -> Result<Picture, String> {
    Ok(around(trace, find(trace, number)?))
}

/// The time at which the step with this number begins: the end of the step before it.
pub fn begin(trace: &Trace, number: u64) -> Result<u64, String> {
    Ok(begin_of(trace, find(trace, Some(number))?))
}

/// The step with this number. Without a number, it is the step with the median time, of the
/// strategy with the most steps.
fn find(trace: &Trace, number: Option<u64>) -> Result<&Span, String> {
    let all: Vec<&Span> = trace
        .spans
        .iter()
        .filter(|span| span.category == "step")
        .collect();
    let Some(strategy) = most_frequent(all.iter().map(|span| span.number("strategy"))) else {
        return Err("there is no step in it".to_owned());
    };
    let mut steps: Vec<&Span> = all
        .into_iter()
        .filter(|span| span.number("strategy") == strategy)
        .collect();
    match number {
        Some(number) => steps
            .iter()
            .find(|span| span.number("step") == number)
            .copied()
            .ok_or_else(|| {
                let numbers = || steps.iter().map(|span| span.number("step"));
                let first = numbers().min().unwrap_or(0);
                let last = numbers().max().unwrap_or(0);
                format!("it has no step {number} of strategy {strategy}; it has {first} to {last}")
            }),
        None => {
            steps.sort_by_key(|span| span.duration);
            Ok(steps[steps.len() / 2])
        }
    }
}

fn most_frequent(numbers: impl Iterator<Item = u64>) -> Option<u64> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    numbers.for_each(|number| *counts.entry(number).or_default() += 1);
    counts
        .into_iter()
        .max_by_key(|&(_, count)| count)
        .map(|(number, _)| number)
}

fn end_of(span: &Span) -> u64 {
    span.start + span.duration
}

fn begin_of(trace: &Trace, step: &Span) -> u64 {
    // A step includes the time of its thread since the step before, but at most as much time as the
    // step itself takes.
    let before = trace.spans.iter().filter(|span| {
        span.category == "step" && span.thread == step.thread && end_of(span) <= step.start
    });
    let earliest = step.start.saturating_sub(step.duration);
    before.map(end_of).max().unwrap_or(0).max(earliest)
}

fn around(trace: &Trace, step: &Span) -> Picture {
    let end = end_of(step);
    let begin = begin_of(trace, step);
    let mut rows: Vec<&Row> = trace
        .rows
        .iter()
        .filter(|row| row.process == step.process)
        .collect();
    rows.sort_by_key(|row| (row.order, row.thread));
    let mut lanes: Vec<Lane> = rows
        .iter()
        .map(|row| {
            let in_row = |span: &&Span| (span.process, span.thread) == (row.process, row.thread);
            let inside = |span: &&Span| end_of(span) > begin && span.start < end;
            let spans: Vec<&Span> = trace.spans.iter().filter(in_row).filter(inside).collect();
            Lane {
                label: row.label.clone(),
                pieces: pieces(spans, begin, end),
            }
        })
        .collect();
    lanes.retain(|lane| !lane.pieces.is_empty());
    Picture {
        number: step.number("step"),
        length: (end - begin) as f64,
        lanes,
    }
}

fn pieces(mut spans: Vec<&Span>, begin: u64, end: u64) -> Vec<Piece> {
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.duration)));
    let mut open: Vec<u64> = Vec::new();
    let mut pieces = Vec::with_capacity(spans.len());
    for span in spans {
        open.retain(|&until| until > span.start);
        pieces.push(Piece {
            name: span.name.clone(),
            category: span.category.clone(),
            start: span.start.max(begin) as f64 - begin as f64,
            end: end_of(span).min(end) as f64 - begin as f64,
            depth: open.len(),
        });
        open.push(end_of(span));
    }
    pieces
}

#[cfg(not(feature = "plot"))]
pub fn draw(_: &Picture) -> Result<String, String> {
    Err("the feature 'plot' is missing".to_owned())
}

#[cfg(feature = "plot")]
pub fn draw(picture: &Picture) -> Result<String, String> {
    let mut text = String::new();
    drawing::draw(&mut text, picture).map_err(|error| error.to_string())?;
    Ok(text)
}

#[cfg(feature = "plot")]
mod drawing {
    use std::error::Error;

    use plotters::coord::Shift;
    use plotters::prelude::*;
    use plotters::style::text_anchor::{HPos, Pos, VPos};

    use super::{Picture, Piece};
    use crate::drawing::{FONT, Font, TITLE_FONT, widest, width_of};

    const CHART_WIDTH: u32 = 760;
    const MARGIN: u32 = 12;
    const HEIGHT_OF_TITLE: u32 = 40;
    const HEIGHT_OF_PIECE: u32 = 26;
    const GAP: u32 = 14;
    const HEIGHT_OF_AXIS: u32 = 40;
    const HEIGHT_OF_NAME: u32 = 22;
    const NAME_FONT: Font = ("sans-serif", 15);
    /// The phases in the order in which a step has them, with their colours in the page of a trace.
    pub const PHASES: [(&str, RGBColor); 11] = [
        ("input", RGBColor(0xe8, 0x96, 0x3a)),
        ("split", RGBColor(0xc9, 0xb0, 0x37)),
        ("copy", RGBColor(0x8c, 0x6b, 0xb1)),
        ("step", RGBColor(0x9a, 0xa5, 0xb5)),
        ("compute", RGBColor(0x2f, 0x7e, 0xd8)),
        ("wait", RGBColor(0xd9, 0xde, 0xe6)),
        ("reduce", RGBColor(0x2c, 0xa5, 0x8d)),
        ("update", RGBColor(0xd1, 0x49, 0x5b)),
        ("exchange", RGBColor(0xb3, 0x47, 0x8f)),
        ("share", RGBColor(0x6c, 0x8e, 0xbf)),
        ("program", RGBColor(0x5b, 0x9a, 0x3c)),
    ];
    const OTHER: RGBColor = RGBColor(119, 119, 119);

    fn colour(category: &str) -> RGBColor {
        PHASES
            .iter()
            .find(|(name, _)| *name == category)
            .map_or(OTHER, |&(_, colour)| colour)
    }

    /// The label of a piece: the legend's name for its phase, or the piece's own name if it has
    /// none or is the program's.
    pub fn label_of(piece: &Piece) -> &str {
        let is_phase = PHASES.iter().any(|(name, _)| *name == piece.category);
        match is_phase && piece.category != "program" {
            true => &piece.category,
            false => &piece.name,
        }
    }

    /// The distance between two ticks of an axis of this length: 1, 2 or 5 times a power of ten, so
    /// that there are four to ten ticks.
    pub fn distance(length: f64) -> f64 {
        let power = 10f64.powf((length.max(1.0) / 4.0).log10().floor());
        let fits = |&&times: &&f64| length / (times * power) >= 4.0;
        [5.0, 2.0]
            .iter()
            .find(fits)
            .map_or(power, |times| times * power)
    }

    pub fn draw(text: &mut String, picture: &Picture) -> Result<(), Box<dyn Error>> {
        let labels = widest(picture.lanes.iter().map(|lane| lane.label.as_str()), FONT);
        let left = MARGIN + labels + MARGIN;
        let lanes: Vec<u32> = picture
            .lanes
            .iter()
            .map(|lane| {
                1 + lane
                    .pieces
                    .iter()
                    .map(|piece| piece.depth)
                    .max()
                    .unwrap_or(0) as u32
            })
            .collect();
        let rows = lanes
            .iter()
            .map(|depth| depth * HEIGHT_OF_PIECE + GAP)
            .sum::<u32>();
        let pieces = || picture.lanes.iter().flat_map(|lane| &lane.pieces);
        let used: Vec<&str> = PHASES
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| pieces().any(|piece| piece.category == *name))
            .collect();
        let title = format!("Step {}: {:.1} µs", picture.number, picture.length / 1e3);
        let legend: u32 = used.iter().map(|name| 34 + width_of(name, FONT)).sum();
        let width = left + CHART_WIDTH.max(legend) + 2 * MARGIN;
        let height = HEIGHT_OF_TITLE + rows + HEIGHT_OF_AXIS + HEIGHT_OF_NAME + MARGIN;
        let root = SVGBackend::with_string(text, (width, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let big = TITLE_FONT
            .into_text_style(&root)
            .pos(Pos::new(HPos::Left, VPos::Center));
        let at =
            |time: f64| (f64::from(left) + time / picture.length * f64::from(CHART_WIDTH)) as i32;
        root.draw_text(&title, &big, (left.cast_signed(), 20))?;

        let bottom = (HEIGHT_OF_TITLE + rows).cast_signed();
        draw_ticks(&root, picture, &at, bottom)?;
        draw_lanes(&root, picture, &lanes, &at)?;
        draw_legend(
            &root,
            &used,
            (left.cast_signed(), bottom + HEIGHT_OF_AXIS.cast_signed()),
        )?;
        root.present()?;
        Ok(())
    }

    type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

    /// Lines at round times, with the times below them.
    fn draw_ticks(
        root: &Area<'_>,
        picture: &Picture,
        at: &impl Fn(f64) -> i32,
        bottom: i32,
    ) -> Result<(), Box<dyn Error>> {
        let centred = FONT
            .into_text_style(root)
            .pos(Pos::new(HPos::Center, VPos::Center));
        let distance = distance(picture.length);
        for tick in 0..=(picture.length / distance) as u32 {
            let time = f64::from(tick) * distance;
            let line = [
                (at(time), HEIGHT_OF_TITLE.cast_signed()),
                (at(time), bottom),
            ];
            root.draw(&PathElement::new(
                line,
                RGBColor(230, 230, 230).stroke_width(1),
            ))?;
            root.draw_text(
                &format!("{} µs", time / 1e3),
                &centred,
                (at(time), bottom + 16),
            )?;
        }
        Ok(())
    }

    /// The pieces of each lane, and its name beside them.
    fn draw_lanes(
        root: &Area<'_>,
        picture: &Picture,
        lanes: &[u32],
        at: &impl Fn(f64) -> i32,
    ) -> Result<(), Box<dyn Error>> {
        let middle = left_aligned(FONT, root);
        let small = left_aligned(NAME_FONT, root);
        let mut top = HEIGHT_OF_TITLE;
        for (lane, depth) in picture.lanes.iter().zip(lanes) {
            let height = (top + depth * HEIGHT_OF_PIECE / 2).cast_signed();
            root.draw_text(&lane.label, &middle, (MARGIN.cast_signed(), height))?;
            for piece in &lane.pieces {
                let y = (top + piece.depth as u32 * HEIGHT_OF_PIECE).cast_signed();
                // A piece that is shorter than a pixel is also visible.
                let from = at(piece.start);
                let to = at(piece.end).max(at(piece.start) + 1);
                let corners = [(from, y), (to, y + HEIGHT_OF_PIECE.cast_signed() - 3)];
                root.draw(&Rectangle::new(corners, colour(&piece.category).filled()))?;
                let name = label_of(piece);
                if width_of(name, NAME_FONT).cast_signed() + 8 < to - from {
                    root.draw_text(name, &small, (from + 4, y + 11))?;
                }
            }
            top += depth * HEIGHT_OF_PIECE + GAP;
        }
        Ok(())
    }

    /// The colours of the categories, side by side from a point on.
    fn draw_legend(
        root: &Area<'_>,
        names: &[&str],
        from: (i32, i32),
    ) -> Result<(), Box<dyn Error>> {
        let middle = left_aligned(FONT, root);
        let (mut x, y) = from;
        for name in names {
            let corners = [(x, y - 6), (x + 12, y + 6)];
            root.draw(&Rectangle::new(corners, colour(name).filled()))?;
            root.draw_text(name, &middle, (x + 18, y))?;
            x += (34 + width_of(name, FONT)).cast_signed();
        }
        Ok(())
    }

    fn left_aligned<'a>(font: Font, root: &Area<'_>) -> TextStyle<'a> {
        font.into_text_style(root)
            .pos(Pos::new(HPos::Left, VPos::Center))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(thread: u64, category: &str, start: u64, duration: u64, step: u64) -> Span {
        let arguments = serde_json::json!({ "step": step, "strategy": 1 });
        let serde_json::Value::Object(arguments) = arguments else {
            unreachable!()
        };
        let name = category.to_owned();
        let category = category.to_owned();
        Span {
            process: 1,
            thread,
            name,
            category,
            start,
            duration,
            arguments,
        }
    }

    fn row(thread: u64, order: u64) -> Row {
        Row {
            process: 1,
            thread,
            label: format!("replica {order}"),
            order,
        }
    }

    /// A trace of three steps on two replicas, and of a thread that does nothing in them.
    fn trace() -> Trace {
        let mut trace = Trace {
            rows: vec![row(8, 1), row(7, 0), row(9, 2)],
            ..Trace::default()
        };
        for (step, start, duration) in [(1, 1000, 100), (2, 2000, 300), (3, 2500, 200)] {
            trace.spans.push(span(7, "input", start - 50, 40, step));
            trace.spans.push(span(7, "step", start, duration, step));
            trace
                .spans
                .push(span(7, "compute", start + 10, duration - 20, step));
            trace
                .spans
                .push(span(8, "compute", start + 15, duration - 30, step));
        }
        trace
    }

    #[test]
    fn a_step_is_shown_from_the_end_of_the_one_before() {
        let picture = picture(&trace(), Some(3)).unwrap();
        assert_eq!((picture.number, picture.length), (3, 400.0));
        assert_eq!(begin(&trace(), 3), Ok(2300));
        let shown: Vec<(&str, usize)> = picture
            .lanes
            .iter()
            .map(|lane| (lane.label.as_str(), lane.pieces.len()))
            .collect();
        assert_eq!(shown, [("replica 0", 3), ("replica 1", 1)]);
        let piece = |category: &str, start, end, depth| Piece {
            name: category.to_owned(),
            category: category.to_owned(),
            start,
            end,
            depth,
        };
        let first = &picture.lanes[0].pieces;
        assert_eq!(first[0], piece("input", 150.0, 190.0, 0));
        assert_eq!(first[1], piece("step", 200.0, 400.0, 0));
        assert_eq!(first[2], piece("compute", 210.0, 390.0, 1));
    }

    #[test]
    fn without_a_number_it_is_a_usual_step() {
        assert_eq!(picture(&trace(), None).unwrap().number, 3);
        // The step before ended long ago. The time shown before this step is no longer than the
        // step itself.
        assert_eq!(picture(&trace(), Some(2)).unwrap().length, 600.0);
    }

    #[test]
    fn missing_steps_are_named() {
        let refused = picture(&trace(), Some(9)).unwrap_err();
        assert_eq!(begin(&trace(), 9), Err(refused.clone()));
        assert!(
            refused.contains("no step 9") && refused.contains("1 to 3"),
            "{refused}"
        );
        assert!(
            picture(&Trace::default(), None)
                .unwrap_err()
                .contains("no step")
        );
    }

    #[cfg(feature = "plot")]
    #[test]
    fn threads_and_phases_are_drawn() {
        let text = draw(&picture(&trace(), Some(3)).unwrap()).unwrap();
        for part in [
            "Step 3: 0.4 µs",
            "replica 0",
            "replica 1",
            "compute",
            "input",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert!(!text.contains("replica 2"));
        let distances = [7_700.0, 400.0, 39.0, 2_100_000.0].map(drawing::distance);
        assert_eq!(distances, [1_000.0, 100.0, 5.0, 500_000.0]);
        let piece = |name: &str, category: &str| Piece {
            name: name.to_owned(),
            category: category.to_owned(),
            start: 0.0,
            end: 1.0,
            depth: 0,
        };
        for (name, category, label) in [
            ("commit", "update", "update"),
            ("my own work", "program", "my own work"),
            ("a kernel", "gpu", "a kernel"),
        ] {
            assert_eq!(drawing::label_of(&piece(name, category)), label);
        }
        for (name, colour) in drawing::PHASES {
            let plotters::style::RGBColor(red, green, blue) = colour;
            let of_the_page = format!("{name}: '#{red:02x}{green:02x}{blue:02x}'");
            assert!(
                include_str!("page.js").contains(&of_the_page),
                "{of_the_page}"
            );
        }
        crate::drawing::assert_fits(&text);
    }
}
