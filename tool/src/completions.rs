//! `umbo completions`: what a shell suggests after `umbo`. It is read from the helps, so that every
//! described option is suggested.

use std::ffi::OsStr;

use lexopt::Arg::{Long, Short, Value};

use crate::failure::Failure;
use crate::{Report, bench, devices, doctor, plot, trace};

pub const HELP: &str = "\
Usage: umbo completions SHELL

Prints a script that lets a shell complete what is typed after 'umbo': bash or zsh.

  source <(umbo completions bash)      in ~/.bashrc, or
  umbo completions bash > /usr/share/bash-completion/completions/umbo
  source <(umbo completions zsh)       in ~/.zshrc, after compinit

Options:
  -h, --help   show this help
";

const SHELLS: [&str; 2] = ["bash", "zsh"];

/// All beginnings of a command line, without options, with the helps that describe what can follow.
fn places() -> Vec<(String, Vec<&'static str>)> {
    let mut places = vec![
        (String::new(), vec![crate::HELP]),
        ("bench".into(), vec![bench::HELP]),
        ("completions".into(), vec![HELP]),
        ("devices".into(), vec![devices::HELP]),
        ("doctor".into(), vec![doctor::HELP]),
        ("plot".into(), vec![plot::HELP]),
        ("trace".into(), vec![trace::HELP]),
    ];
    for benchmark in &bench::BENCHMARKS {
        places.push((
            format!("bench {}", benchmark.name),
            benchmark.helps.to_vec(),
        ));
    }
    places
}

/// The commands, or benchmarks, that a help lists.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let titles = ["Commands:\n", "Benchmarks:\n"].into_iter();
    let lists = titles.filter_map(|title| help.split_once(title));
    let lines = lists.flat_map(|(_, list)| list.lines().map_while(|line| line.strip_prefix("  ")));
    // A line that is indented further continues with a description.
    let first = lines.filter(|line| !line.starts_with(' '));
    first.filter_map(|line| line.split_whitespace().next())
}

/// An option with its description in a help.
struct Described<'a> {
    /// The short name and the long one, or one of them.
    names: Vec<&'a str>,
    /// The placeholder of its value, such as FILE.
    value: Option<&'a str>,
    /// The description as one line, even if the help has several.
    description: String,
}

impl Described<'_> {
    /// The possible names of the value. The value may be several of them, with commas between them.
    fn choices(&self) -> Vec<&str> {
        let lists = ["some of: ", "one of: "].into_iter();
        let list = lists
            .filter_map(|before| self.description.split_once(before))
            .next();
        let list = list.map_or("", |(_, rest)| rest.split(" (").next().unwrap_or(rest));
        list.split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .collect()
    }
}

/// The options that a help lists.
fn described(help: &str) -> Vec<Described<'_>> {
    let mut all: Vec<Described<'_>> = Vec::new();
    for line in help
        .lines()
        .skip_while(|line| !line.trim_start().starts_with('-'))
    {
        let (head, text) = line.trim().split_once("  ").unwrap_or(("", line.trim()));
        if head.starts_with('-') {
            let is_name = |word: &&str| word.starts_with('-');
            let words = || {
                head.split_whitespace()
                    .map(|word| word.trim_end_matches(','))
            };
            all.push(Described {
                names: words().filter(is_name).collect(),
                value: words().find(|word| !is_name(word)),
                description: text.trim().to_owned(),
            });
        } else if let Some(last) = all.last_mut() {
            last.description += &format!(" {text}");
        }
    }
    all
}

/// The options that a help lists, including short ones.
fn options(help: &str) -> impl Iterator<Item = &str> {
    described(help).into_iter().flat_map(|option| option.names)
}

/// Whether a command reads a file whose name is not the value of an option.
fn reads_file(helps: &[&str]) -> bool {
    let usage = helps
        .first()
        .and_then(|help| help.lines().next())
        .unwrap_or_default();
    let words: Vec<&str> = usage.split_whitespace().collect();
    words
        .windows(2)
        .any(|pair| !pair[0].starts_with('-') && pair[1].trim_matches(['[', ']']) == "FILE")
}

/// The words that can follow this beginning of a command line.
fn words(place: &str, helps: &[&'static str]) -> Vec<&'static str> {
    let shells = if place == "completions" {
        &SHELLS[..]
    } else {
        &[]
    };
    let commands = helps.iter().flat_map(|help| commands(help));
    let options = helps.iter().flat_map(|help| options(help));
    commands
        .chain(shells.iter().copied())
        .chain(options)
        .collect()
}

/// The long options of the command that these arguments name, for a message about an unknown
/// option.
pub fn options_of(arguments: &[String]) -> Option<(String, Vec<&'static str>)> {
    let mut named = arguments
        .iter()
        .take_while(|word| !word.starts_with('-'))
        .take(2);
    let typed = [named.next(), named.next()].into_iter().flatten();
    let typed: Vec<&str> = typed.map(String::as_str).collect();
    let mut places = places();
    places.retain(|(place, _)| typed.join(" ").starts_with(place));
    let (place, helps) = places.into_iter().max_by_key(|(place, _)| place.len())?;
    let options = helps
        .iter()
        .flat_map(|help| options(help))
        .filter(|word| word.starts_with("--"));
    let options = options.collect();
    Some((place, options))
}

/// A line of the script for the words that can follow a beginning.
fn case_of_place(place: &str, helps: &[&'static str]) -> String {
    let files = if reads_file(helps) { " files=yes" } else { "" };
    format!(
        "    '{place}') words='{}'{files} ;;\n",
        words(place, helps).join(" ")
    )
}

/// Lines for the values of the options after a beginning.
fn cases_of_values(place: &str, helps: &[&'static str]) -> String {
    let mut cases = String::new();
    for option in helps.iter().flat_map(|help| described(help)) {
        let Some(value) = option.value else { continue };
        let patterns = option.names.iter().map(|name| format!("'{place} {name}'"));
        let patterns = patterns.collect::<Vec<_>>().join("|");
        let action = match value {
            "FILE" => "words='' files=yes".to_owned(),
            _ => format!("words='{}' files=''", option.choices().join(" ")),
        };
        cases += &format!("    {patterns}) value=yes {action} ;;\n");
    }
    cases
}

fn bash() -> String {
    let places = places();
    let all: String = places
        .iter()
        .map(|(place, helps)| case_of_place(place, helps))
        .collect();
    let values: String = places
        .iter()
        .map(|(place, helps)| cases_of_values(place, helps))
        .collect();
    let named = places
        .iter()
        .map(|(place, _)| place)
        .filter(|place| !place.is_empty());
    let named = named
        .map(|place| format!("'{place}'"))
        .collect::<Vec<_>>()
        .join("|");
    format!(
        "\
# Completes 'umbo'. Written by 'umbo completions bash'.
_umbo() {{
  local word place='' words='' files='' value='' before=''
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  COMPREPLY=()
  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do
    case \"${{place:+$place }}$word\" in
      {named}) place=\"${{place:+$place }}$word\" ;;
      *) break ;;
    esac
  done
  case $place in
{all}  esac
  case \"$place $previous\" in
{values}  esac
  if [[ -n $files && ( -n $value || $current != -* ) ]]; then
    local IFS=$'\\n'
    COMPREPLY=( $(compgen -f -- \"$current\") )
    return
  fi
  if [[ -n $value && $current == *,* ]]; then
    before=${{current%,*}},
  fi
  COMPREPLY=( $(compgen -P \"$before\" -W \"$words\" -- \"${{current#\"$before\"}}\") )
}}
complete -o filenames -F _umbo umbo
"
    )
}

/// The script for zsh, which runs the function for bash.
fn zsh() -> String {
    format!("autoload -U +X bashcompinit && bashcompinit\n{}", bash())
}

pub fn run(mut arguments: lexopt::Parser) -> Result<Report, Failure> {
    let mut script = None;
    while let Some(argument) = arguments.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Report::fine(HELP)),
            Value(shell) if script.is_none() => script = Some(script_for(&shell)?),
            Value(shell) => {
                return Err(Failure::wrong(format!(
                    "'{}' is one shell too many; give one",
                    shell.to_string_lossy()
                )));
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let which = || Failure::wrong(format!("which shell? There are {}", SHELLS.join(", ")));
    script.map(Report::fine).ok_or_else(which)
}

fn script_for(shell: &OsStr) -> Result<String, Failure> {
    match shell.to_str() {
        Some("bash") => Ok(bash()),
        Some("zsh") => Ok(zsh()),
        _ => Err(Failure::wrong(format!(
            "nothing is known of the shell '{}'; there are {}",
            shell.to_string_lossy(),
            SHELLS.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_helps() {
        let words_of = |wanted: &str| {
            let (place, helps) = places()
                .into_iter()
                .find(|(place, _)| place == wanted)
                .unwrap();
            words(&place, &helps)
        };
        assert_eq!(
            words_of(""),
            [
                "bench",
                "completions",
                "devices",
                "doctor",
                "plot",
                "trace",
                "-h",
                "--help",
                "-V",
                "--version"
            ]
        );
        assert_eq!(&words_of("bench")[..2], ["run", "reduce"]);
        assert!(words_of("bench rows").starts_with(&["--dtype", "--rule", "--width", "--share"]));
        assert!(words_of("bench rows").contains(&"--plot"));
        assert!(!words_of("bench workers").contains(&"--plot"));
        assert_eq!(words_of("completions"), ["bash", "zsh", "-h", "--help"]);
        // Every benchmark has a beginning of its own, and each such beginning has a benchmark.
        let named = bench::BENCHMARKS.map(|benchmark| benchmark.name);
        let listed: Vec<&str> = commands(bench::HELP).collect();
        assert_eq!(listed, named);
    }

    #[test]
    fn a_command_is_found_among_its_arguments() {
        let command = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            options_of(&words).map(|(place, _)| place).unwrap()
        };
        assert_eq!(command(&["bench", "rows", "--all"]), "bench rows");
        assert_eq!(command(&["devices", "--json", "x"]), "devices");
        assert_eq!(command(&["--all"]), "");
    }
}
