//! `umbo trace`: a trace as a page to look at.

pub mod file;
mod page;
pub mod report;
mod step;

use std::path::{Path, PathBuf};

use lexopt::Arg::{Long, Short, Value};
use lexopt::ValueExt;

use crate::Report;
use crate::drawing::Page;

pub const HELP: &str = "\
Usage: umbo trace FILE --html PAGE [OPTIONS]
       umbo trace FILE --plot DRAWING [--step N]

Makes a page of a trace that umbo_trace_start() or UMBO_TRACE wrote: a row for each replica and each
other thread, to be zoomed and moved. The page is one file and needs no network. Or draws one step of
it. 'umbo doctor FILE' says in words what keeps the steps from being faster.

Options:
      --html PAGE  where the page is written
      --most N     the most spans that the page has; the earliest count (default: 200000)
      --plot FILE  draw a step, from the end of the one before it (.svg or .png)
      --step N     the number of that step (default: one whose time is the median)
  -h, --help       show this help
";

pub fn run(mut arguments: lexopt::Parser) -> Result<Report, lexopt::Error> {
    let (mut file, mut html, mut most) = (None, None, 200_000usize);
    let (mut plot, mut number) = (None, None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("html") => html = Some(PathBuf::from(arguments.value()?)),
            Long("plot") => plot = Some(PathBuf::from(arguments.value()?)),
            Long("step") => number = Some(arguments.value()?.parse()?),
            Long("most") => {
                let text = arguments.value()?;
                let text = text.to_string_lossy();
                most = text.parse().ok().filter(|&most| most > 0).ok_or_else(|| {
                    format!("--most: '{text}' is no number of spans; give 1 or more")
                })?;
            }
            Short('h') | Long("help") => return Ok(Report::fine(HELP)),
            Value(path) if file.is_none() => file = Some(PathBuf::from(path)),
            other => return Err(other.unexpected()),
        }
    }
    let file = file.ok_or("which trace? Give the name of its file")?;
    if number.is_some() && plot.is_none() {
        return Err("--step is for a drawing; give --plot and its name".into());
    }
    if html.is_none() && plot.is_none() {
        return Err(
            "where to? Give --html and the name of the page, or --plot and that of a drawing"
                .into(),
        );
    }
    let mut said = Report::fine("");
    let made =
        [html.map(|html| make(&file, &html, most)), plot.map(|plot| draw(&file, &plot, number))];
    for made in made.into_iter().flatten() {
        let made =
            made.unwrap_or_else(|problem| Report { text: format!("{problem}\n"), fine: false });
        said = Report { text: said.text + &made.text, fine: said.fine && made.fine };
    }
    Ok(said)
}

fn draw(file: &Path, plot: &Path, number: Option<u64>) -> Result<Report, String> {
    let trace = file::read(file)?;
    let within = |problem: String| format!("{}: {problem}", file.display());
    let picture = step::picture(&trace, number).map_err(within)?;
    Page::create(plot)?.write(step::draw(&picture))?;
    let (plot, threads) = (plot.display(), picture.lanes.len());
    Ok(Report::fine(format!("{plot}: step {} on {threads} threads\n", picture.number)))
}

fn make(file: &Path, html: &Path, most: usize) -> Result<Report, String> {
    let trace = file::read(file)?;
    let title = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (report, _) = report::report(&trace);
    let page = page::page(&title, &trace, &report, most);
    std::fs::write(html, page).map_err(|error| format!("{}: {error}", html.display()))?;
    let spans = trace.spans.len();
    let shown = match spans > most {
        true => format!("the first {most} of {spans} spans; give --most {spans} for all"),
        false => format!("{spans} spans"),
    };
    Ok(Report::fine(format!("{}: {shown} in {} rows\n", html.display(), trace.rows.len())))
}
