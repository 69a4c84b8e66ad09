//! `umbo plot`: draws the history of a training.

mod chart;
mod history;

use std::fs::File;
use std::path::Path;

use lexopt::Arg::{Long, Short, Value};
use lexopt::ValueExt;

use crate::Report;
use crate::arguments::{self, differs};
use crate::drawing::Page;
use crate::failure::Failure;
use history::History;

pub const HELP: &str = "\
Usage: umbo plot FILE [OPTIONS]

Draws how a training went, from FILE, a .csv. Its first line names its columns; each line after it
has a number for each of them, or nothing where there is none. The first column, usually
'epoch', is the axis; if an epoch appears twice, as after a resumed training, the last line is used.

Columns whose names end in the same word share a chart: 'loss' and 'test_loss', 'accuracy' and
'test_accuracy'. Without --columns, those are drawn whose names end in 'loss' or 'accuracy'.

Options:
      --columns LIST   the columns to draw, separated by commas
  -o, --output FILE    the drawing, an SVG (default: FILE.svg for FILE.csv)
  -h, --help           show this help
";

pub fn run(mut arguments: lexopt::Parser) -> Result<Report, Failure> {
    let mut input = None;
    let mut output = None;
    let mut columns = None;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("columns") if columns.is_none() => columns = Some(arguments.value()?.string()?),
            Long("columns") => {
                return Err(Failure::wrong(
                    "--columns is there twice; give one list with commas between the names",
                ));
            }
            Short('o') | Long("output") => {
                output = Some(arguments::file(&mut arguments, "output")?)
            }
            Short('h') | Long("help") => return Ok(Report::fine(HELP)),
            Value(file) if input.is_none() => input = Some(arguments::input(file)?),
            other => return Err(other.unexpected().into()),
        }
    }
    let Some(input) = input else {
        return Err(Failure::wrong(
            "which file? Give the history of a training, a .csv",
        ));
    };
    let output = output.unwrap_or_else(|| input.with_extension("svg"));
    draw(&input, &output, columns.as_deref())
}

fn draw(input: &Path, output: &Path, columns: Option<&str>) -> Result<Report, Failure> {
    let within = |problem: String| Failure::of_file(input, problem);
    let file = File::open(input).map_err(|error| Failure::of_file(input, error))?;
    let history = History::read(file).map_err(within)?;
    let charts = history.charts(columns).map_err(within)?;
    differs("output", output, input, "the history itself")?;
    let page = Page::create(output)?;
    let drawn: Vec<String> = charts
        .iter()
        .flat_map(|chart| &chart.curves)
        .map(|curve| curve.name.clone())
        .collect();
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
