//! Draws how many times as fast several replicas are, over the work of a step.

use super::Even;
use crate::bench::compared::Row;

#[cfg(not(feature = "plot"))]
pub fn draw(_: usize, _: &[Row], _: Even) -> Result<String, String> {
    Err("the feature 'plot' is missing".to_owned())
}

#[cfg(feature = "plot")]
pub fn draw(replicas: usize, rows: &[Row], even: Even) -> Result<String, String> {
    let mut text = String::new();
    drawing::draw(&mut text, replicas, rows, even).map_err(|error| error.to_string())?;
    Ok(text)
}

#[cfg(feature = "plot")]
mod drawing {
    use std::error::Error;

    use plotters::prelude::*;

    use umbo_core::system::processors::{model, online};

    use super::{Even, Row};
    use crate::day;
    use crate::drawing::{FONT, TITLE_FONT, around, width_of};

    const SIZE: (u32, u32) = (760, 420);
    const MARGIN: u32 = 12;
    const OURS: RGBColor = RGBColor(20, 90, 180);
    const EDGE: RGBColor = RGBColor(90, 90, 90);

    pub fn draw(
        text: &mut String,
        replicas: usize,
        rows: &[Row],
        even: Even,
    ) -> Result<(), Box<dyn Error>> {
        let found = match even {
            Even::At(us) => format!("pay off above {us:.1} µs of work per step"),
            Even::Always => "pay off with all this work".to_owned(),
            Even::Never => "do not pay off with this work".to_owned(),
        };
        let model = model().unwrap_or_else(|| "unknown processor".to_owned());
        let title = format!(
            "{replicas} replicas {found} ({model}, {} processors, {})",
            online(),
            day::today()
        );
        let width = SIZE.0.max(width_of(&title, TITLE_FONT) + 2 * MARGIN);
        let root = SVGBackend::with_string(text, (width, SIZE.1)).into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled(&title, TITLE_FONT)?;
        let work = around(rows.iter().map(|row| row.work_us));
        let least = work.start;
        let most = work.end;
        let highest = rows
            .iter()
            .map(|row| row.first_to_second(0.75))
            .fold(replicas as f64, f64::max)
            * 1.05;
        let mut chart = ChartBuilder::on(&root)
            .margin(MARGIN)
            .margin_right(30)
            .x_label_area_size(48)
            .y_label_area_size(64)
            .build_cartesian_2d(work.log_scale().base(2.0), 0.0..highest)?;
        chart
            .configure_mesh()
            .label_style(FONT)
            .light_line_style(TRANSPARENT)
            .x_desc("microseconds of work in a step")
            .y_desc("times as fast as one replica")
            .x_label_formatter(&|us| format!("{us}"))
            .draw()?;
        for height in [1.0, replicas as f64] {
            let edge = [(least, height), (most, height)];
            chart.draw_series(DashedLineSeries::new(edge, 6, 6, EDGE.stroke_width(1)))?;
        }
        for row in rows {
            let reach = [
                (row.work_us, row.first_to_second(0.25)),
                (row.work_us, row.first_to_second(0.75)),
            ];
            chart.draw_series([PathElement::new(reach, OURS.stroke_width(1))])?;
        }
        let middle = || {
            rows.iter()
                .map(|row| (row.work_us, row.first_to_second(0.5)))
        };
        chart.draw_series(LineSeries::new(middle(), OURS.stroke_width(2)))?;
        chart.draw_series(middle().map(|point| Circle::new(point, 3, OURS.filled())))?;
        root.present()?;
        Ok(())
    }
}

#[cfg(all(test, feature = "plot"))]
mod tests {
    use super::*;
    use crate::drawing::assert_fits;

    #[test]
    fn ratios_and_the_crossing_are_drawn() {
        let row = |work_us, several| Row {
            work_us,
            first: vec![10.0],
            second: vec![several],
        };
        let rows = [row(1.0, 20.0), row(10.0, 8.0), row(100.0, 6.0)];
        let text = draw(2, &rows, super::super::even(&rows)).unwrap();
        assert!(text.contains("2 replicas pay off above ") && text.contains("times as fast"));
        assert_eq!(text.matches("<circle").count(), 3);
        assert_fits(&text);
        assert!(draw(2, &[], Even::Always).unwrap().contains("</svg>"));
    }
}
