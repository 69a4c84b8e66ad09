//! `umbo trace`: a trace as a page to look at.

pub mod file;
mod page;
pub mod report;

use std::path::{Path, PathBuf};

use lexopt::Arg::{Long, Short, Value};

use crate::Report;

pub const HELP: &str = "\
Usage: umbo trace FILE --html PAGE [OPTIONS]

Makes a page of a trace that umbo_trace_start() or UMBO_TRACE wrote: a row for each replica and each
other thread, to be zoomed and moved. The page is one file and needs no network. 'umbo doctor FILE'
says in words what keeps the steps from being faster.

Options:
      --html PAGE  where the page is written
      --most N     the most spans that the page has; the earliest count (default: 200000)
  -h, --help       show this help
";

pub fn run(mut arguments: lexopt::Parser) -> Result<Report, lexopt::Error> {
    let (mut file, mut html, mut most) = (None, None, 200_000usize);
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("html") => html = Some(PathBuf::from(arguments.value()?)),
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
    let html = html.ok_or("where to? Give --html and the name of the page")?;
    Ok(make(&file, &html, most)
        .unwrap_or_else(|problem| Report { text: format!("{problem}\n"), fine: false }))
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
