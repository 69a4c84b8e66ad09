//! `--plot FILE`: draws the results of a benchmark.

#![cfg_attr(
    not(feature = "plot"),
    expect(dead_code, reason = "lines and spans are only drawn")
)]

use std::path::Path;

use super::memory::quantile;
use crate::drawing::Page;
use crate::failure::Failure;

/// The speeds of an operation and its probe, over the sizes of the operands.
pub struct Line {
    /// The labels that distinguish the line from the others.
    pub name: String,
    pub points: Vec<Point>,
}

pub struct Point {
    pub bytes: f64,
    /// The speed in gigabytes per second.
    pub ours: f64,
    pub probe: f64,
}

/// The times of an operation and its probe, in microseconds.
pub struct Span {
    pub name: String,
    /// The position of the middle, and the range of the other values.
    pub middle: f64,
    pub low: f64,
    pub high: f64,
    /// The middle of the probe, if there is one.
    pub probe: Option<f64>,
}

impl Span {
    /// The median of `times` with their quartiles.
    pub fn of(name: &str, times: &[f64], probe: Option<&[f64]>) -> Span {
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| quantile(times, share));
        let probe = probe.map(|times| quantile(times, 0.5));
        Span {
            name: name.to_owned(),
            middle,
            low,
            high,
            probe,
        }
    }
}

/// A file for the drawing of a benchmark.
pub struct Plot(Page);

impl Plot {
    /// Opens the file, so that a wrong name is refused before anything is measured.
    pub fn create(path: &Path) -> Result<Plot, Failure> {
        Page::create(path).map(Plot)
    }

    /// Draws speeds over sizes: a line for the library, and a dashed one for the probe. `shared`
    /// has the labels of all lines.
    pub fn speeds(self, title: &str, shared: &str, lines: &[Line]) -> Result<(), Failure> {
        self.0.write(drawing::speeds(title, shared, lines))
    }

    /// Draws durations, one below the other. `title` explains low and high.
    pub fn durations(self, title: &str, spans: &[Span]) -> Result<(), Failure> {
        self.0.write(drawing::durations(title, spans))
    }
}

#[cfg(not(feature = "plot"))]
mod drawing {
    use super::{Line, Span};

    pub fn speeds(_: &str, _: &str, _: &[Line]) -> Result<String, String> {
        Err("the feature 'plot' is missing".to_owned())
    }

    pub fn durations(_: &str, _: &[Span]) -> Result<String, String> {
        Err("the feature 'plot' is missing".to_owned())
    }
}

#[cfg(feature = "plot")]
mod drawing {
    use std::error::Error;

    use plotters::prelude::*;
    use plotters::style::text_anchor::{HPos, Pos, VPos};

    use super::{Line, Span};
    use crate::bytes_text;
    use crate::drawing::{FONT, TITLE_FONT, around, widest, width_of};

    type Drawn<T> = Result<T, Box<dyn Error>>;

    /// The smallest size of a page. It is larger if its texts need more space.
    const WIDTH: u32 = 1080;
    const HEIGHT: u32 = 600;
    const MARGIN: u32 = 12;
    /// The distance from the axis of sizes to the right edge of the chart.
    const CHART: u32 = 760;
    const HEIGHT_OF_SPAN: u32 = 48;
    /// The space above, below and between the durations.
    const HEIGHT_AROUND_SPANS: u32 = 130;
    /// A sample of a line in the legend, with the space on both sides.
    const SAMPLE: u32 = 46;
    const HEIGHT_OF_NAME: u32 = 22;
    const PROBE: RGBColor = RGBColor(90, 90, 90);
    const OURS: RGBColor = RGBColor(20, 90, 180);

    pub fn speeds(title: &str, shared: &str, lines: &[Line]) -> Result<String, String> {
        let mut text = String::new();
        draw_speeds(&mut text, title, shared, lines).map_err(|error| error.to_string())?;
        Ok(text)
    }

    pub fn durations(title: &str, spans: &[Span]) -> Result<String, String> {
        let mut text = String::new();
        draw_durations(&mut text, title, spans).map_err(|error| error.to_string())?;
        Ok(text)
    }

    fn draw_speeds(text: &mut String, title: &str, shared: &str, lines: &[Line]) -> Drawn<()> {
        let points = || lines.iter().flat_map(|line| &line.points);
        let fastest = points()
            .map(|point| point.ours.max(point.probe))
            .fold(0.0, f64::max);
        let names = SAMPLE + widest(lines.iter().map(|line| line.name.as_str()), FONT) + MARGIN;
        let titles = width_of(title, TITLE_FONT).max(width_of(shared, FONT)) + 2 * MARGIN;
        let width = WIDTH.max(CHART + names).max(titles);
        let legend = HEIGHT_OF_NAME * u32::try_from(lines.len())?;
        let root =
            SVGBackend::with_string(text, (width, HEIGHT.max(100 + legend))).into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled(title, TITLE_FONT)?.titled(shared, FONT)?;
        let mut chart = ChartBuilder::on(&root)
            .margin(MARGIN)
            .margin_right(names.max(width - CHART))
            .x_label_area_size(48)
            .y_label_area_size(64)
            .build_cartesian_2d(
                around(points().map(|point| point.bytes))
                    .log_scale()
                    .base(2.0),
                0.0..fastest.max(f64::MIN_POSITIVE) * 1.1,
            )?;
        chart
            .configure_mesh()
            .label_style(FONT)
            .light_line_style(TRANSPARENT)
            .x_desc("bytes from one replica")
            .y_desc("GB/s, dashed: the probe")
            .x_label_formatter(&|bytes| bytes_text(*bytes as u64))
            .draw()?;
        let left = Pos::new(HPos::Left, VPos::Center);
        let label = FONT.into_text_style(&root).pos(left);
        let beside = (width - names.max(width - CHART) + MARGIN).cast_signed();
        let heights = (MARGIN.cast_signed()..).step_by(HEIGHT_OF_NAME as usize);
        for ((number, line), y) in lines.iter().enumerate().zip(heights) {
            let colour = Palette99::pick(number).to_rgba();
            let ours = line.points.iter().map(|point| (point.bytes, point.ours));
            let probe = line.points.iter().map(|point| (point.bytes, point.probe));
            chart.draw_series(DashedLineSeries::new(probe, 4, 4, colour.stroke_width(1)))?;
            chart.draw_series(LineSeries::new(ours.clone(), colour.stroke_width(2)))?;
            chart.draw_series(ours.map(|point| Circle::new(point, 3, colour.filled())))?;
            // The legend is beside the chart, where it covers nothing.
            let sample = [(beside, y), (beside + 18, y)];
            root.draw(&PathElement::new(sample, colour.stroke_width(2)))?;
            root.draw_text(&line.name, &label, (beside + 26, y))?;
        }
        root.present()?;
        Ok(())
    }

    fn draw_durations(text: &mut String, title: &str, spans: &[Span]) -> Drawn<()> {
        let count = u32::try_from(spans.len())?;
        let names = widest(spans.iter().map(|span| span.name.as_str()), FONT) + 2 * MARGIN;
        let width = (WIDTH - 230 + names).max(width_of(title, TITLE_FONT) + 2 * MARGIN);
        let size = (width, HEIGHT_AROUND_SPANS + count * HEIGHT_OF_SPAN);
        let root = SVGBackend::with_string(text, size).into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled(title, TITLE_FONT)?;
        let ends = spans
            .iter()
            .flat_map(|span| [span.low, span.high, span.middle]);
        let probes = spans.iter().filter_map(|span| span.probe);
        let mut chart = ChartBuilder::on(&root)
            .margin(MARGIN)
            .margin_right(30)
            .margin_left(names)
            .x_label_area_size(48)
            .build_cartesian_2d(
                around(ends.chain(probes)).log_scale(),
                0.0..f64::from(count),
            )?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .label_style(FONT)
            .x_desc("microseconds; circles: Umbo, crosses: the probe")
            .draw()?;
        let right = Pos::new(HPos::Right, VPos::Center);
        let label = FONT.into_text_style(&root).pos(right);
        for (span, line) in spans.iter().rev().zip(0u32..) {
            let y = f64::from(line) + 0.5;
            let (_, height) = chart.backend_coord(&(span.middle, y));
            root.draw_text(&span.name, &label, (names.cast_signed() - 5, height))?;
            let reach = [(span.low, y), (span.high, y)];
            chart.draw_series([PathElement::new(reach, OURS.stroke_width(2))])?;
            chart.draw_series([Circle::new((span.middle, y), 5, OURS.filled())])?;
            chart.draw_series(
                span.probe
                    .map(|probe| Cross::new((probe, y), 5, PROBE.stroke_width(2))),
            )?;
        }
        root.present()?;
        Ok(())
    }
}

#[cfg(all(test, feature = "plot"))]
mod tests {
    use super::*;
    use crate::drawing::assert_fits;

    #[test]
    fn lines_and_spans_are_drawn() {
        let point = |bytes| Point {
            bytes,
            ours: 40.0,
            probe: 50.0,
        };
        let line = |name: &str, sizes: &[f64]| Line {
            name: name.to_owned(),
            points: sizes.iter().copied().map(point).collect(),
        };
        let lines = [
            line("one & two", &[4096.0, 8192.0]),
            line("a single size", &[4096.0]),
        ];
        let text = drawing::speeds("reduce", "in common", &lines).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
        for part in [
            "reduce",
            "in common",
            "one &amp; two",
            "a single size",
            "4.0 KiB",
            "GB/s",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        let spans = [
            Span::of("a probe", &[1.0, 2.0, 3.0], None),
            Span::of("an operation", &[3.0, 2.0, 4.0], Some(&[1.0])),
        ];
        assert_eq!(
            (spans[1].low, spans[1].middle, spans[1].high),
            (2.5, 3.0, 3.5)
        );
        let text = drawing::durations("run", &spans).unwrap();
        assert!(
            text.contains("an operation") && text.matches("<circle").count() == 2,
            "{text}"
        );
    }

    #[test]
    fn nothing_measured_is_no_reason_to_fail() {
        assert!(
            drawing::speeds("nothing", "", &[])
                .unwrap()
                .contains("</svg>")
        );
        assert!(
            drawing::durations("nothing", &[])
                .unwrap()
                .contains("</svg>")
        );
    }

    #[test]
    fn long_names_and_many_lines_fit_their_page() {
        let long =
            "a rule with a name, replicas 8, gradient bfloat16, copy bfloat16, clip true".repeat(2);
        let line = |number: usize| Line {
            name: format!("{long} {number}"),
            points: vec![Point {
                bytes: 4096.0,
                ours: 40.0,
                probe: 50.0,
            }],
        };
        let lines: Vec<Line> = (0..60).map(line).collect();
        assert_fits(&drawing::speeds(&long, &long.repeat(2), &lines).unwrap());
        assert_fits(&drawing::speeds("short", "", &lines[..1]).unwrap());
        let spans = [
            Span::of(&long, &[1.0, 2.0], Some(&[1.0])),
            Span::of("short", &[1.0], None),
        ];
        assert_fits(&drawing::durations(&long.repeat(2), &spans).unwrap());
    }
}
