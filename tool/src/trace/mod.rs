//! `umbo trace`: shows a trace as a page.

pub mod file;
mod page;
pub mod report;
mod step;

use std::path::Path;

use lexopt::Arg::{Long, Short, Value};
use umbo_core::checkpoint::atomic::AtomicFile;

use crate::Report;
use crate::arguments::{self, differs, number};
use crate::drawing::Page;
use crate::failure::Failure;
use file::Trace;
use step::Picture;

pub const HELP: &str = "\
Usage: umbo trace FILE --html FILE [OPTIONS]
       umbo trace FILE --plot FILE [--step N]

Makes a page of a trace that umbo_trace_start() or UMBO_TRACE wrote: a row for each replica and each
other thread, to be zoomed and moved. The page is one file and needs no network. Or draws one step
of it. 'umbo doctor FILE' says in words what keeps the steps from being faster.

Options:
      --html FILE  where the page is written
      --from N     the number of the step with which the page begins (0 to 1000000000000; default:
                   what comes first)
      --most N     the most spans on the page; later ones are left out (1 to 1000000000; default:
                   200000)
      --plot FILE  draw a step, from the end of the one before it (.svg)
      --step N     the number of that step (0 to 1000000000000; default: one whose time is the
                   median)
  -h, --help       show this help
";

pub fn run(mut arguments: lexopt::Parser) -> Result<Report, Failure> {
    let arguments = &mut arguments;
    let mut file = None;
    let mut html = None;
    let mut from = None;
    let mut most = 200_000;
    let mut plot = None;
    let mut step = None;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("html") => html = Some(arguments::file(arguments, "html")?),
            Long("plot") => plot = Some(arguments::file(arguments, "plot")?),
            Long("step") => step = Some(number(arguments, "step", 0..=1_000_000_000_000)?),
            Long("from") => from = Some(number(arguments, "from", 0..=1_000_000_000_000)?),
            Long("most") => most = number(arguments, "most", 1..=1_000_000_000)?,
            Short('h') | Long("help") => return Ok(Report::fine(HELP)),
            Value(path) if file.is_none() => file = Some(arguments::input(path)?),
            other => return Err(other.unexpected().into()),
        }
    }
    let Some(file) = file else {
        return Err(Failure::wrong("which trace? Give the name of its file"));
    };
    let outputs = (html.as_deref(), plot.as_deref());
    check(&file, outputs, from.is_some(), step.is_some())?;
    let trace = file::read(&file)?;
    let picture = plot
        .as_ref()
        .map(|_| step::picture(&trace, step))
        .transpose();
    let picture = picture.map_err(|problem| Failure::of_file(&file, problem))?;
    let begin = from.map(|number| step::begin(&trace, number)).transpose();
    let begin = begin.map_err(|problem| Failure::of_file(&file, problem))?;
    // The drawing is made before the page. If its name is not that of a drawing, nothing is
    // written.
    let drawn = plot
        .zip(picture)
        .map(|(plot, picture)| draw(&plot, &picture))
        .transpose()?;
    let made = html
        .map(|html| make(&file, &trace, &html, begin.unwrap_or(0), most))
        .transpose()?;
    Ok(Report::fine(
        made.unwrap_or_default() + &drawn.unwrap_or_default(),
    ))
}

/// Refuses options that do not belong together. `outputs` are the names of page and drawing.
fn check(
    file: &Path,
    outputs: (Option<&Path>, Option<&Path>),
    has_from: bool,
    has_step: bool,
) -> Result<(), Failure> {
    let (html, plot) = outputs;
    if has_step && plot.is_none() {
        return Err(Failure::wrong(
            "--step is for a drawing; give --plot and its name",
        ));
    }
    if has_from && html.is_none() {
        return Err(Failure::wrong(
            "--from is for a page; give --html and its name",
        ));
    }
    if html.is_none() && plot.is_none() {
        return Err(Failure::wrong(
            "where to? Give --html and the name of the page, or --plot and that of a drawing",
        ));
    }
    for (option, output) in [("html", html), ("plot", plot)] {
        if let Some(output) = output {
            differs(option, output, file, "the trace itself")?;
        }
    }
    if let (Some(html), Some(plot)) = outputs {
        differs("plot", plot, html, "the page of --html")?;
    }
    Ok(())
}

/// Draws a step, and returns a message.
fn draw(plot: &Path, picture: &Picture) -> Result<String, Failure> {
    Page::create(plot)?.write(step::draw(picture))?;
    let plot = plot.display();
    let threads = picture.lanes.len();
    Ok(format!(
        "{plot}: step {} on {threads} threads\n",
        picture.number
    ))
}

/// Makes a page of what began at `begin` or later, and returns a message.
fn make(
    file: &Path,
    trace: &Trace,
    html: &Path,
    begin: u64,
    most: usize,
) -> Result<String, Failure> {
    let title = file
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let (report, _) = report::report(trace);
    let (page, rows) = page::page(&title, trace, &report, begin, most);
    let mut output = AtomicFile::create(html).map_err(Failure::of_output)?;
    output.write(page.as_bytes()).map_err(Failure::of_output)?;
    output.finish().map_err(Failure::of_output)?;
    let later = trace.spans.iter().filter(|span| span.start >= begin);
    let spans = later.count();
    let shown = match spans > most {
        true => format!("the first {most} of {spans} spans; give --most {spans} for all"),
        false => format!("{spans} spans"),
    };
    Ok(format!("{}: {shown} in {rows} rows\n", html.display()))
}
