//! `umbo plot`: the history of a training as a drawing.

mod chart;
mod history;

use std::fs::File;
use std::path::{Path, PathBuf};

use lexopt::Arg::{Long, Short, Value};
use lexopt::ValueExt;

use crate::Report;
use crate::drawing::Page;
use history::History;

pub const HELP: &str = "\
Usage: umbo plot FILE.csv [OPTIONS]

Draws how a training went. The first line of the file names its columns; each line after it has a
number for each of them, or nothing where there is none. The first column, usually 'epoch', is the
axis; if it says the same twice, as after a resumed training, the later line counts.

Columns whose names end in the same word share a chart: 'loss' and 'test_loss', 'accuracy' and
'test_accuracy'. Without --columns all columns are drawn whose names end in 'loss' or 'accuracy'.

Options:
      --columns LIST   the columns to draw, separated by commas
  -o, --output FILE    the drawing, SVG or PNG as its name ends (default: FILE.svg beside FILE.csv)
  -h, --help           show this help
";

pub fn run(mut arguments: lexopt::Parser) -> Result<Report, lexopt::Error> {
    let (mut input, mut output, mut columns) = (None, None, None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("columns") => columns = Some(arguments.value()?.string()?),
            Short('o') | Long("output") => output = Some(PathBuf::from(arguments.value()?)),
            Short('h') | Long("help") => return Ok(Report::fine(HELP)),
            Value(file) if input.is_none() => input = Some(PathBuf::from(file)),
            other => return Err(other.unexpected()),
        }
    }
    let Some(input) = input else {
        return Err("which file? Give the history of a training, a .csv".into());
    };
    draw(&input, output, columns.as_deref()).map_err(lexopt::Error::from)
}

fn draw(input: &Path, output: Option<PathBuf>, columns: Option<&str>) -> Result<Report, String> {
    let within = |error: String| format!("'{}': {error}", input.display());
    let file = File::open(input).map_err(|error| within(error.to_string()))?;
    let history = History::read(file).map_err(within)?;
    let charts = history.charts(columns).map_err(within)?;
    let page = Page::create(&output.unwrap_or_else(|| input.with_extension("svg")))?;
    let drawn: Vec<String> =
        charts.iter().flat_map(|chart| &chart.curves).map(|curve| curve.name.clone()).collect();
    let said = format!(
        "{}: {} over {}, {} rows\n",
        page.path().display(),
        drawn.join(", "),
        history.axis(),
        history.rows()
    );
    page.write(chart::draw(history.axis(), &charts))?;
    Ok(Report::fine(said))
}
