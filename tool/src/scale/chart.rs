//! Efficiency over the number of processes, a line for each network.

use super::Network;

#[cfg(not(feature = "plot"))]
pub fn draw(_: &[Network]) -> Result<String, String> {
    Err("the feature 'plot' is missing".to_owned())
}

#[cfg(feature = "plot")]
pub fn draw(networks: &[Network]) -> Result<String, String> {
    let mut text = String::new();
    drawing::draw(&mut text, networks).map_err(|error| error.to_string())?;
    Ok(text)
}

#[cfg(feature = "plot")]
mod drawing {
    use std::error::Error;

    use plotters::prelude::*;
    use plotters::style::text_anchor::{HPos, Pos, VPos};

    use super::super::{MOST, Network};
    use crate::drawing::{FONT, TITLE_FONT, widest};

    const CHART: (u32, u32) = (760, 420);
    const MARGIN: u32 = 12;
    const SAMPLE: u32 = 34;
    const HEIGHT_OF_NAME: u32 = 22;

    pub fn draw(text: &mut String, networks: &[Network]) -> Result<(), Box<dyn Error>> {
        let names: Vec<String> =
            networks.iter().map(|network| format!("{} Gbit/s", network.gigabits)).collect();
        let legend = SAMPLE + widest(names.iter().map(String::as_str), FONT) + 2 * MARGIN;
        let lines = u32::try_from(networks.len())?;
        let size = (CHART.0 + legend, CHART.1.max(80 + lines * HEIGHT_OF_NAME));
        let root = SVGBackend::with_string(text, size).into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled("What each process is of use for", TITLE_FONT)?;
        let mut chart = ChartBuilder::on(&root)
            .margin(MARGIN)
            .margin_right(legend)
            .x_label_area_size(44)
            .y_label_area_size(60)
            .build_cartesian_2d((1.0..f64::from(MOST)).log_scale(), 0.0..115.0)?;
        chart
            .configure_mesh()
            .label_style(FONT)
            .light_line_style(TRANSPARENT)
            .x_desc("processes")
            .y_desc("% of a process alone")
            .draw()?;
        let left = Pos::new(HPos::Left, VPos::Center);
        let label = FONT.into_text_style(&root).pos(left);
        let beside = (CHART.0 + MARGIN).cast_signed();
        let heights = (MARGIN.cast_signed()..).step_by(HEIGHT_OF_NAME as usize);
        for ((number, (network, name)), y) in networks.iter().zip(&names).enumerate().zip(heights) {
            let colour = Palette99::pick(number).to_rgba();
            // Ten points in each power of two.
            let points = (0..=f64::from(MOST).log2().ceil() as u32 * 10)
                .map(|step| 2f64.powf(f64::from(step) / 10.0).min(f64::from(MOST)))
                .map(|processes| (processes, 100.0 * network.constants.efficiency(processes)));
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
            let sample = [(beside, y), (beside + 18, y)];
            root.draw(&PathElement::new(sample, colour.stroke_width(2)))?;
            root.draw_text(name, &label, (beside + 26, y))?;
        }
        root.present()?;
        Ok(())
    }
}
