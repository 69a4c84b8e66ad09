//! The values of options. All commands read them with this module. An impossible value is refused
//! with the name of the option and the possible values.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use lexopt::{Parser, ValueExt};
use umbo_core::system::files::FileIdentity;

use crate::failure::Failure;

/// The numbers of replicas and compute devices of a strategy.
pub const REPLICAS: RangeInclusive<usize> = 1..=1024;
/// The numbers of rounds of a benchmark.
pub const ROUNDS: RangeInclusive<usize> = 1..=100_000;
/// The numbers of steps in a round.
pub const STEPS: RangeInclusive<usize> = 1..=1_000_000;
/// The durations of pauses and of work that may be 0, in microseconds.
pub const PAUSE_US: RangeInclusive<u64> = 0..=10_000_000;
/// The durations of measured work, in microseconds.
pub const WORK_US: RangeInclusive<f64> = 0.1..=1e6;
/// The numbers of elements in a variable.
pub const PARAMETERS: RangeInclusive<usize> = 1..=1_000_000_000;

/// A number that can be read from a command line and compared with a range.
pub trait Number: Copy + PartialOrd {
    /// The name of the kind of number in a message.
    const KIND: &str;

    /// Reads the number; `None` if the text is not such a number.
    fn read(text: &str) -> Option<Self>;

    /// The text of the number on a command line.
    fn shown(self) -> String;
}

macro_rules! plain_number {
    ($($type:ty: $kind:literal),*) => {$(
        impl Number for $type {
            const KIND: &str = $kind;

            fn read(text: &str) -> Option<$type> {
                text.parse().ok()
            }

            fn shown(self) -> String {
                self.to_string()
            }
        }
    )*};
}

plain_number!(
    u32: "a whole number",
    u64: "a whole number",
    usize: "a whole number",
    f64: "a number"
);

/// A number of bytes: `64`, `4K`, `64M` or `1G`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Bytes(pub usize);

impl Bytes {
    const UNITS: [(char, u32); 3] = [('G', 30), ('M', 20), ('K', 10)];

    /// The possible sizes of blocks of memory.
    pub const BLOCKS: RangeInclusive<Bytes> = Bytes(64)..=Bytes(64 << 30);
}

impl Number for Bytes {
    const KIND: &str = "a size such as 4096, 4K or 1G,";

    fn read(text: &str) -> Option<Bytes> {
        let last = text.chars().next_back()?.to_ascii_uppercase();
        let unit = Bytes::UNITS.iter().find(|(name, _)| *name == last);
        let (digits, shift) =
            unit.map_or((text, 0), |&(_, shift)| (&text[..text.len() - 1], shift));
        digits
            .parse::<usize>()
            .ok()?
            .checked_mul(1 << shift)
            .map(Bytes)
    }

    fn shown(self) -> String {
        let fits = |&&(_, shift): &&(char, u32)| self.0 > 0 && self.0.is_multiple_of(1 << shift);
        match Bytes::UNITS.iter().find(fits) {
            Some((name, shift)) => format!("{}{name}", self.0 >> shift),
            None => self.0.to_string(),
        }
    }
}

/// Reads the next argument as the value of this option: a number in the range.
pub fn number<T: Number>(
    arguments: &mut Parser,
    option: &str,
    range: RangeInclusive<T>,
) -> Result<T, Failure> {
    in_range(option, &text(arguments)?, &range, "")
}

/// Reads the next argument as numbers with commas between them.
pub fn numbers<T: Number>(
    arguments: &mut Parser,
    option: &str,
    range: RangeInclusive<T>,
) -> Result<Vec<T>, Failure> {
    let several = ", or several with commas between them";
    text(arguments)?
        .split(',')
        .map(|item| in_range(option, item, &range, several))
        .collect()
}

fn in_range<T: Number>(
    option: &str,
    text: &str,
    range: &RangeInclusive<T>,
    several: &str,
) -> Result<T, Failure> {
    T::read(text)
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let kind = T::KIND;
            let least = range.start().shown();
            let most = range.end().shown();
            Failure::wrong(format!(
                "--{option}: '{text}' is not possible here; give {kind} from {least} to \
                 {most}{several}"
            ))
        })
}

/// The first or the last value of a range.
pub struct RangeEnd<T> {
    /// The option that gives it.
    pub option: &'static str,
    /// The value, if the option was given.
    pub given: Option<T>,
    /// Its default.
    pub usual: T,
}

/// Combines a first and a last value. Either can be omitted. If its default does not fit the other
/// one, the default is adjusted.
pub fn first_to_last<T: Number>(
    first_end: RangeEnd<T>,
    last_end: RangeEnd<T>,
) -> Result<(T, T), Failure> {
    let usual_first = first_end.usual;
    let usual_last = last_end.usual;
    let smaller = |one: T, other: T| if other < one { other } else { one };
    let larger = |one: T, other: T| if other > one { other } else { one };
    match (first_end.given, last_end.given) {
        (Some(first), Some(last)) if first > last => Err(Failure::wrong(format!(
            "--{}: {} is less than --{}, {}; give at least as much",
            last_end.option,
            last.shown(),
            first_end.option,
            first.shown()
        ))),
        (Some(first), last) => Ok((first, last.unwrap_or(larger(usual_last, first)))),
        (None, Some(last)) => Ok((smaller(usual_first, last), last)),
        (None, None) => Ok((usual_first, usual_last)),
    }
}

/// Reads the next argument as the value of this option: one of some names.
pub fn one_of<T: Copy>(
    arguments: &mut Parser,
    option: &str,
    possible: &[(&str, T)],
) -> Result<T, Failure> {
    named(option, &text(arguments)?, possible, "one")
}

/// Reads the next argument as names with commas between them.
pub fn some_of<T: Copy>(
    arguments: &mut Parser,
    option: &str,
    possible: &[(&str, T)],
) -> Result<Vec<T>, Failure> {
    text(arguments)?
        .split(',')
        .map(|item| named(option, item, possible, "some"))
        .collect()
}

fn named<T: Copy>(
    option: &str,
    text: &str,
    possible: &[(&str, T)],
    how_many: &str,
) -> Result<T, Failure> {
    let found = possible
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|&(_, item)| item).ok_or_else(|| {
        let names: Vec<&str> = possible.iter().map(|&(name, _)| name).collect();
        let names = names.join(",");
        Failure::wrong(format!(
            "--{option}: '{text}' is not possible here; give {how_many} of {names}"
        ))
    })
}

fn text(arguments: &mut Parser) -> Result<String, Failure> {
    Ok(arguments.value()?.string()?)
}

/// Reads the next argument as the value of this option: the name of a file.
pub fn file(arguments: &mut Parser, option: &str) -> Result<PathBuf, Failure> {
    let name = arguments.value()?;
    named_file(name).ok_or_else(|| {
        Failure::wrong(format!(
            "--{option}: '' is not the name of a file; give the name of one"
        ))
    })
}

/// The name of a file that a command reads.
pub fn input(name: OsString) -> Result<PathBuf, Failure> {
    named_file(name)
        .ok_or_else(|| Failure::wrong("'' is not the name of a file; give the name of one"))
}

fn named_file(name: OsString) -> Option<PathBuf> {
    (!name.is_empty()).then(|| PathBuf::from(name))
}

/// Refuses to write to a file that the command also reads, or to which it writes something else,
/// even if the two names differ.
pub fn differs(option: &str, path: &Path, other: &Path, other_role: &str) -> Result<(), Failure> {
    let place = |path: &Path| FileIdentity::at(path).ok();
    let is_same =
        path == other || place(path).is_some_and(|resolved| place(other) == Some(resolved));
    if is_same {
        let path = path.display();
        return Err(Failure::wrong(format!(
            "--{option}: '{path}' is {other_role}; give another name"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Parser {
        let mut parser = Parser::from_args(["--option", text]);
        parser.next().unwrap();
        parser
    }

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in [("64", 64), ("4K", 4096), ("4k", 4096), ("2G", 2 << 30)] {
            assert_eq!(Bytes::read(text), Some(Bytes(bytes)));
        }
        for text in ["", "M", "4T", "-4K", "1.5M", "99999999999G", "4é"] {
            assert_eq!(Bytes::read(text), None, "{text}");
        }
        let shown = [0, 100, 4096, 5 << 20, 64 << 30].map(|bytes| Bytes(bytes).shown());
        assert_eq!(shown, ["0", "100", "4K", "5M", "64G"]);
    }

    #[test]
    fn numbers_out_of_their_range_are_refused() {
        assert_eq!(number(&mut given("7"), "option", 1..=7usize).unwrap(), 7);
        assert_eq!(
            numbers(&mut given("0.5,1"), "option", 0.1..=2.0).unwrap(),
            [0.5, 1.0]
        );
        for text in ["0", "8", "-1", "NaN", "", "some", "1.5"] {
            let refused = number(&mut given(text), "option", 1..=7usize)
                .unwrap_err()
                .to_string();
            let expected =
                format!("--option: '{text}' is not possible here; give a whole number from 1 to 7");
            assert_eq!(refused, expected);
        }
        for text in ["NaN", "inf", "1,", "1,3"] {
            let refused = numbers(&mut given(text), "option", 0.1..=2.0)
                .unwrap_err()
                .to_string();
            assert!(refused.contains("from 0.1 to 2, or several"), "{refused}");
        }
    }

    #[test]
    fn names_are_read_in_either_case() {
        let possible = [("sum", 1), ("mean", 2)];
        assert_eq!(
            some_of(&mut given("mean,SUM"), "option", &possible).unwrap(),
            [2, 1]
        );
        let refused = some_of(&mut given("sum,"), "option", &possible)
            .unwrap_err()
            .to_string();
        assert_eq!(
            refused,
            "--option: '' is not possible here; give some of sum,mean"
        );
        let refused = one_of(&mut given("sum,mean"), "option", &possible)
            .unwrap_err()
            .to_string();
        assert!(refused.ends_with("give one of sum,mean"), "{refused}");
    }

    #[test]
    fn a_default_gives_way() {
        let between = |first, last| {
            let first = RangeEnd {
                option: "from",
                given: first,
                usual: 4usize,
            };
            let last = RangeEnd {
                option: "to",
                given: last,
                usual: 64,
            };
            first_to_last(first, last).map_err(|error| error.to_string())
        };
        assert_eq!(between(None, None), Ok((4, 64)));
        assert_eq!(between(Some(100), None), Ok((100, 100)));
        assert_eq!(between(None, Some(2)), Ok((2, 2)));
        assert_eq!(between(Some(3), Some(3)), Ok((3, 3)));
        let refused = between(Some(8), Some(4)).unwrap_err();
        assert_eq!(
            refused,
            "--to: 4 is less than --from, 8; give at least as much"
        );
    }
}
