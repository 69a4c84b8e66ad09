//! The common parts of all drawings: their file, their fonts, and the space that a text needs.

#![cfg_attr(not(feature = "plot"), expect(dead_code, reason = "nothing is drawn"))]

#[cfg(feature = "plot")]
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use umbo_core::checkpoint::atomic::AtomicFile;

use crate::failure::Failure;

/// The name of a font and its size in pixels.
pub type Font = (&'static str, u32);

pub const FONT: Font = ("sans-serif", 16);
pub const TITLE_FONT: Font = ("sans-serif", 20);

/// A file for a drawing. It is made before anything is measured, so that an error is reported at
/// once. It takes its name when it is written, and replaces an older one then.
pub struct Page {
    path: PathBuf,
    file: AtomicFile,
}

impl Page {
    #[cfg(not(feature = "plot"))]
    pub fn create(_: &Path) -> Result<Page, Failure> {
        Err(Failure::wrong(
            "this tool was built without its feature 'plot', and draws nothing",
        ))
    }

    #[cfg(feature = "plot")]
    pub fn create(path: &Path) -> Result<Page, Failure> {
        let is_drawing = |ending: &OsStr| ending.eq_ignore_ascii_case("svg");
        if !path.extension().is_some_and(is_drawing) {
            let name = path.display();
            return Err(Failure::wrong(format!(
                "'{name}' is not the name of a drawing; give one that ends in .svg"
            )));
        }
        let file = AtomicFile::create(path).map_err(Failure::of_output)?;
        Ok(Page {
            path: path.to_owned(),
            file,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(mut self, drawn: Result<String, String>) -> Result<(), Failure> {
        let text = drawn.map_err(|problem| Failure::of_file(&self.path, problem))?;
        self.file
            .write(text.as_bytes())
            .map_err(Failure::of_output)?;
        self.file.finish().map_err(Failure::of_output)
    }
}

/// An estimate of the width of a text in pixels. A drawing cannot know the fonts of its viewer. In
/// common fonts, a letter is on average half as wide as the font is high, and this adds a fifth to
/// that.
pub fn width_of(text: &str, font: Font) -> u32 {
    let letters = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    letters.saturating_mul(font.1).saturating_mul(3) / 5
}

/// The width of the widest text.
pub fn widest<'a>(texts: impl IntoIterator<Item = &'a str>, font: Font) -> u32 {
    texts
        .into_iter()
        .map(|text| width_of(text, font))
        .max()
        .unwrap_or(0)
}

/// A range for all values that can be drawn on a logarithmic axis, with space on both sides.
pub fn around(values: impl Iterator<Item = f64>) -> Range<f64> {
    let finite = values.filter(|value| value.is_finite() && *value > 0.0);
    let (least, most) = finite.fold((f64::INFINITY, 0.0f64), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    if least > most {
        1.0..2.0
    } else {
        least * 0.8..most * 1.25
    }
}

/// Checks in tests that every text of a drawing ends before its page does.
#[cfg(all(test, feature = "plot"))]
pub fn assert_fits(drawing: &str) {
    fn number(tag: &str, name: &str) -> f64 {
        let from = tag
            .find(&format!(" {name}=\""))
            .unwrap_or_else(|| panic!("no {name} in {tag}"));
        let value = &tag[from + name.len() + 3..];
        value[..value.find('"').unwrap()].parse().unwrap()
    }
    let width = number(drawing, "width");
    let height = number(drawing, "height");
    for tag in drawing.split("<text").skip(1) {
        let (attributes, rest) = tag.split_once('>').unwrap();
        if attributes.contains("rotate") {
            continue;
        }
        let text = rest.split('<').next().unwrap().trim();
        let long = text.chars().count() as f64 * number(attributes, "font-size") * 0.5;
        let x = number(attributes, "x");
        let (left, right) = if attributes.contains("text-anchor=\"end\"") {
            (x - long, x)
        } else if attributes.contains("text-anchor=\"middle\"") {
            (x - long / 2.0, x + long / 2.0)
        } else {
            (x, x + long)
        };
        assert!(
            left >= 0.0 && right <= width,
            "'{text}' is from {left} to {right} of {width}"
        );
        assert!(
            number(attributes, "y") < height,
            "'{text}' is below the page"
        );
    }
}
