//! Charts of a history, one below the other.

use super::history::Chart;

#[cfg(not(feature = "plot"))]
pub fn draw(_: &str, _: &[Chart]) -> Result<String, String> {
    Err("the feature 'plot' is missing".to_owned())
}

#[cfg(feature = "plot")]
pub fn draw(axis: &str, charts: &[Chart]) -> Result<String, String> {
    let mut text = String::new();
    drawing::draw(&mut text, axis, charts).map_err(|error| error.to_string())?;
    Ok(text)
}

#[cfg(feature = "plot")]
mod drawing {
    use std::error::Error;
    use std::ops::Range;

    use plotters::prelude::*;
    use plotters::style::text_anchor::{HPos, Pos, VPos};

    use super::Chart;
    use crate::drawing::{FONT, widest};

    const CHART_WIDTH: u32 = 640;
    const CHART_HEIGHT: u32 = 300;
    const MARGIN: u32 = 12;
    /// A sample of a curve, with the space on both sides.
    const SAMPLE: u32 = 30;
    const HEIGHT_OF_NAME: u32 = 22;
    const COLOURS: [RGBColor; 6] = [
        RGBColor(20, 90, 180),
        RGBColor(200, 90, 20),
        RGBColor(40, 130, 60),
        RGBColor(150, 40, 120),
        RGBColor(110, 110, 20),
        RGBColor(90, 90, 90),
    ];

    pub fn draw(text: &mut String, axis: &str, charts: &[Chart]) -> Result<(), Box<dyn Error>> {
        let names = charts
            .iter()
            .flat_map(|chart| &chart.curves)
            .map(|curve| curve.name.as_str());
        let legend = SAMPLE + widest(names, FONT) + MARGIN;
        let size = (
            CHART_WIDTH + legend,
            CHART_HEIGHT * u32::try_from(charts.len())?,
        );
        let root = SVGBackend::with_string(text, size).into_drawing_area();
        root.fill(&WHITE)?;
        let areas = root.split_evenly((charts.len(), 1));
        for (area, chart) in areas.iter().zip(charts) {
            draw_chart(area, axis, chart, legend)?;
        }
        root.present()?;
        Ok(())
    }

    fn draw_chart(
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
        axis: &str,
        chart: &Chart,
        legend: u32,
    ) -> Result<(), Box<dyn Error>> {
        let points = || chart.curves.iter().flat_map(|curve| &curve.points);
        let across = reach(points().map(|point| point.0));
        let up = reach(points().map(|point| point.1));
        let mut drawn = ChartBuilder::on(area)
            .margin(MARGIN)
            .margin_right(legend)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(across, up)?;
        drawn
            .configure_mesh()
            .label_style(FONT)
            .light_line_style(TRANSPARENT)
            .x_desc(axis)
            .y_desc(&chart.subject)
            .x_label_formatter(&|value| label_of(*value))
            .draw()?;
        let label = FONT
            .into_text_style(area)
            .pos(Pos::new(HPos::Left, VPos::Center));
        let beside = (CHART_WIDTH + MARGIN).cast_signed();
        let heights = (MARGIN.cast_signed() + 12..).step_by(HEIGHT_OF_NAME as usize);
        for ((curve, colour), y) in chart.curves.iter().zip(COLOURS.iter().cycle()).zip(heights) {
            let points = curve.points.iter().copied();
            drawn.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            drawn.draw_series(points.map(|point| Circle::new(point, 3, colour.filled())))?;
            let sample = [(beside, y), (beside + 12, y)];
            area.draw(&PathElement::new(sample, colour.stroke_width(2)))?;
            area.draw_text(&curve.name, &label, (beside + 18, y))?;
        }
        Ok(())
    }

    /// The label of a number on an axis, without the digits that come from the rounding of sums of
    /// tenths.
    pub fn label_of(value: f64) -> String {
        format!("{}", (value * 1e6).round() / 1e6)
    }

    /// A range for all values, with some space, even around a single one.
    fn reach(values: impl Iterator<Item = f64>) -> Range<f64> {
        let (least, most) = values.fold(
            (f64::INFINITY, f64::NEG_INFINITY),
            |(least, most), value| (least.min(value), most.max(value)),
        );
        if least > most {
            return 0.0..1.0;
        }
        let room = (most - least) * 0.05;
        let room = if room > 0.0 {
            room
        } else {
            least.abs().max(1.0) * 0.05
        };
        least - room..most + room
    }
}

#[cfg(all(test, feature = "plot"))]
mod tests {
    use super::super::history::History;
    use super::*;
    use crate::drawing::assert_fits;

    fn drawn(text: &str, columns: Option<&str>) -> String {
        let history = History::read(text.as_bytes()).unwrap();
        draw(history.axis(), &history.charts(columns).unwrap()).unwrap()
    }

    #[test]
    fn charts_stand_below_each_other() {
        let text = drawn(
            "epoch,loss,test_loss,test_accuracy\n1,0.5,0.6,0.8\n2,0.4,0.5,0.85\n3,0.3,0.45,0.87\n",
            None,
        );
        for part in ["epoch", "loss", "test_loss", "test_accuracy", "accuracy"] {
            assert!(text.contains(&format!("\n{part}\n")), "no {part} in {text}");
        }
        assert_eq!(text.matches("<circle").count(), 9);
        assert_fits(&text);
    }

    #[test]
    fn labels_have_no_digits_of_rounding() {
        let labels = [0.1 + 0.2, 2.5999999999999996, -1e-17 + 1.0, 100.0].map(drawing::label_of);
        assert_eq!(labels, ["0.3", "2.6", "1", "100"]);
    }

    #[test]
    fn one_row_no_value_and_long_names_are_drawn() {
        let long = "the_mean_of_all_the_losses_of_a_model_that_has_many_of_them_as_one_loss";
        let text = drawn(&format!("step,{long},accuracy\n100,0.5,\n"), None);
        assert_eq!(text.matches("<circle").count(), 1);
        assert_fits(&text);
    }
}
