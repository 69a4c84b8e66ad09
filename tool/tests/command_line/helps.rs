//! The helps: their form, and that commands refuse what a help does not offer.

use crate::assert_refused;
use crate::program::printed;

/// The command lines of all commands and benchmarks, with their helps.
fn helps() -> Vec<(Vec<String>, String)> {
    let listed = |help: &str, title: &str| -> Vec<String> {
        let lines = help.split(title).nth(1).unwrap().lines();
        let lines = lines.take_while(|line| !line.is_empty());
        lines
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect()
    };
    let mut places = vec![Vec::new()];
    places.extend(
        listed(&printed(&["--help"]), "Commands:\n")
            .into_iter()
            .map(|name| vec![name]),
    );
    let benchmarks = listed(&printed(&["bench", "--help"]), "Benchmarks:\n");
    places.extend(
        benchmarks
            .into_iter()
            .map(|name| vec!["bench".to_owned(), name]),
    );
    let with_help = |place: Vec<String>| {
        let words: Vec<&str> = place.iter().map(String::as_str).chain(["--help"]).collect();
        let help = printed(&words);
        (place, help)
    };
    places.into_iter().map(with_help).collect()
}

/// An option that takes a value, as a help describes it.
struct Described {
    name: String,
    value: String,
    text: String,
}

impl Described {
    /// The text in parentheses up to a semicolon: `1 to 1024`.
    fn range(&self) -> Option<(&str, &str)> {
        let groups = self
            .text
            .split('(')
            .skip(1)
            .filter_map(|rest| rest.split([')', ';']).next());
        groups.filter_map(|group| group.split_once(" to ")).next()
    }

    /// Whether its numbers need not be whole ones.
    fn takes_fractions(&self) -> bool {
        let units = ["-ms", "-us", "-mb", "-gbs", "gbits", "overlap"];
        let counted = ["--idle-us", "--pause-us"].contains(&self.name.as_str())
            || self.name == "--work-us" && self.value == "N";
        units.iter().any(|unit| self.name.ends_with(unit)) && !counted
    }

    /// Arguments outside of a range: less than its least, more than its most, and what is not such
    /// a number at all.
    fn outside(&self, least: &str, most: &str) -> Vec<String> {
        let split = |text: &str| {
            let digits = text.trim_end_matches(['K', 'M', 'G']);
            (
                digits.parse::<f64>().unwrap(),
                text[digits.len()..].to_owned(),
            )
        };
        let (least, _) = split(least);
        let (most, unit) = split(most);
        let mut wrong = [
            "-1",
            "NaN",
            "inf",
            "",
            "some",
            "1e400",
            "99999999999999999999999",
        ]
        .map(str::to_owned)
        .to_vec();
        wrong.push(format!("{}{unit}", most + 1.0));
        if least > 0.0 {
            wrong.push("0".to_owned());
        }
        if least > 1.0 {
            wrong.push("1".to_owned());
        }
        if !self.takes_fractions() {
            wrong.push("1.5".to_owned());
        }
        wrong
    }

    /// The list behind "some of:" or "one of:", with commas between.
    fn choices(&self) -> Option<String> {
        let list = ["some of: ", "one of: "];
        let (_, rest) = list
            .iter()
            .find_map(|before| self.text.split_once(before))?;
        Some(rest.split(" (").next().unwrap().replace(", ", ","))
    }
}

fn options_with_values(help: &str) -> Vec<Described> {
    let mut all: Vec<Described> = Vec::new();
    let mut is_one = false;
    for line in help
        .lines()
        .skip_while(|line| !line.starts_with("Options:"))
        .skip(1)
    {
        let line = line.trim();
        if line.starts_with('-') {
            let (head, text) = line.split_once("  ").unwrap();
            let words: Vec<&str> = head.split_whitespace().collect();
            let name = words
                .iter()
                .position(|word| word.starts_with("--"))
                .unwrap();
            is_one = name + 1 < words.len();
            if is_one {
                let [name, value] = [words[name], words[name + 1]].map(str::to_owned);
                all.push(Described {
                    name,
                    value,
                    text: text.trim().to_owned(),
                });
            }
        } else if is_one && !line.is_empty() {
            let last = all.last_mut().unwrap();
            last.text += " ";
            last.text += line;
        }
    }
    all
}

/// Every option that takes numbers says in its help which, and refuses all others with the same
/// words; so does every option that takes one of some names.
#[test]
fn values_that_are_not_possible_are_refused_with_those_that_are() {
    let mut numbers = 0;
    let mut names = 0;
    for (place, help) in helps() {
        for option in options_with_values(&help) {
            let place: Vec<&str> = place.iter().map(String::as_str).collect();
            let refused = |value: &str, expected: &str| {
                let expected = format!(
                    "{}: '{value}' is not possible here; give {expected}",
                    option.name
                );
                assert_refused(&[&place[..], &[&option.name, value]].concat(), &expected);
            };
            if let Some((least, most)) = option.range() {
                numbers += 1;
                let expected = match least.chars().chain(most.chars()).last() {
                    Some('K' | 'M' | 'G') => "a size such as 4096, 4K or 1G,",
                    _ if option.takes_fractions() => "a number",
                    _ => "a whole number",
                };
                for wrong in option.outside(least, most) {
                    refused(&wrong, &format!("{expected} from {least} to {most}"));
                }
            } else if let Some(choices) = option.choices() {
                names += 1;
                let how_many = if option.value == "LIST" {
                    "some"
                } else {
                    "one"
                };
                for wrong in ["", "none", "-1"] {
                    refused(wrong, &format!("{how_many} of {choices}\n"));
                }
            } else {
                // Files, the name of a device, and columns that only the file knows.
                let free =
                    ["FILE", "NAME"].contains(&option.value.as_str()) || option.name == "--columns";
                assert!(
                    free,
                    "the help of {place:?} does not say what {} can be",
                    option.name
                );
            }
        }
    }
    assert!(
        numbers > 50 && names > 12,
        "{numbers} options of numbers, {names} of names"
    );
}

/// Options stand below each other in every help, and what they are for, too.
#[test]
fn helps_have_columns() {
    for (place, help) in helps() {
        let mut columns = std::collections::BTreeMap::new();
        let mut part = "";
        for line in help.lines() {
            if line.ends_with(':') && !line.starts_with(' ') {
                part = line;
            }
            let name = line.trim_start();
            let indentation = line.len() - name.len();
            let is_entry = part != "Options:" && line.starts_with("  ") && !part.is_empty();
            let expected = if name.starts_with("--") { 6 } else { 2 };
            if name.starts_with('-') || is_entry {
                assert_eq!(indentation, expected, "{place:?}: {line}");
                let text = name
                    .find("  ")
                    .map(|at| indentation + at + name[at..].len() - name[at..].trim_start().len());
                let first = *columns.entry(part).or_insert(text);
                assert_eq!(text, first, "{place:?}: {line}");
            }
            assert!(line.len() <= 120, "{place:?}: {line}");
        }
    }
}
