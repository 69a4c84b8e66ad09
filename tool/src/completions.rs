//! `umbo completions`: what a shell offers behind `umbo`. It is read from the helps, so that an option is offered where it
//! is described.

use lexopt::Arg::{Long, Short, Value};

use crate::{Report, bench, devices, doctor, plot, scale, trace};

pub const HELP: &str = "\
Usage: umbo completions SHELL

Prints a script that lets a shell complete what is typed behind 'umbo': bash or zsh.

  source <(umbo completions bash)      in ~/.bashrc, or
  umbo completions bash > /usr/share/bash-completion/completions/umbo
  source <(umbo completions zsh)       in ~/.zshrc, after compinit

Options:
  -h, --help   show this help
";

const SHELLS: [&str; 2] = ["bash", "zsh"];

/// What is typed so far without options, with the helps that say what can follow.
fn places() -> Vec<(String, Vec<&'static str>)> {
    let mut places = vec![
        (String::new(), vec![crate::HELP]),
        ("bench".into(), vec![bench::HELP]),
        ("completions".into(), vec![HELP]),
        ("devices".into(), vec![devices::HELP]),
        ("doctor".into(), vec![doctor::HELP]),
        ("plot".into(), vec![plot::HELP]),
        ("scale".into(), vec![scale::HELP]),
        ("trace".into(), vec![trace::HELP]),
    ];
    for (name, helps) in bench::HELPS {
        places.push((format!("bench {name}"), helps.to_vec()));
    }
    places
}

/// The commands, or benchmarks, that a help lists.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let lists = help.split("Commands:\n").chain(help.split("Benchmarks:\n")).skip(1);
    let lists = lists.filter(|list| !list.starts_with("Usage"));
    let lines = lists.flat_map(|list| list.lines().take_while(|line| line.starts_with("  ")));
    lines.filter_map(|line| line.split_whitespace().next())
}

/// The options that a help lists, short ones too.
fn options(help: &str) -> impl Iterator<Item = &str> {
    let described = help.lines().filter(|line| line.trim_start().starts_with('-'));
    described.flat_map(|line| {
        let words = line.split_whitespace().take_while(|word| word.starts_with('-'));
        words.map(|word| word.trim_end_matches(','))
    })
}

/// The words that can follow what is typed.
fn words(place: &str, helps: &[&'static str]) -> Vec<&'static str> {
    let shells = if place == "completions" { &SHELLS[..] } else { &[] };
    let commands = helps.iter().flat_map(|help| commands(help));
    let options = helps.iter().flat_map(|help| options(help));
    commands.chain(shells.iter().copied()).chain(options).collect()
}

/// The long options of the command that these arguments name, for who has given another one.
pub fn options_of(arguments: &[String]) -> Option<(String, Vec<&'static str>)> {
    let mut named = arguments.iter().take_while(|word| !word.starts_with('-')).take(2);
    let typed = [named.next(), named.next()].into_iter().flatten();
    let typed: Vec<&str> = typed.map(String::as_str).collect();
    let mut places = places();
    places.retain(|(place, _)| typed.join(" ").starts_with(place));
    let (place, helps) = places.into_iter().max_by_key(|(place, _)| place.len())?;
    let options = helps.iter().flat_map(|help| options(help)).filter(|word| word.starts_with("--"));
    let options = options.collect();
    Some((place, options))
}

fn bash() -> String {
    let mut cases = String::new();
    for (place, helps) in places() {
        cases += &format!("    '{place}') words='{}' ;;\n", words(&place, &helps).join(" "));
    }
    format!(
        "\
# Completes 'umbo'. Written by 'umbo completions bash'.
_umbo() {{
  local word place='' words='' current=${{COMP_WORDS[COMP_CWORD]}}
  COMPREPLY=()
  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do
    case $word in
      -*) break ;;
      *) place=\"${{place:+$place }}$word\" ;;
    esac
  done
  case $place in
{cases}    *) words='' ;;
  esac
  if [[ -z $words || ( $place == plot && $current != -* ) ]]; then
    COMPREPLY=( $(compgen -f -- \"$current\") )
  else
    COMPREPLY=( $(compgen -W \"$words\" -- \"$current\") )
  fi
}}
complete -o filenames -F _umbo umbo
"
    )
}

/// zsh runs the function for bash.
fn zsh() -> String {
    format!("autoload -U +X bashcompinit && bashcompinit\n{}", bash())
}

pub fn run(mut arguments: lexopt::Parser) -> Result<Report, lexopt::Error> {
    match arguments.next()? {
        Some(Short('h') | Long("help")) => Ok(Report::fine(HELP)),
        Some(Value(shell)) if shell == "bash" => Ok(Report::fine(bash())),
        Some(Value(shell)) if shell == "zsh" => Ok(Report::fine(zsh())),
        Some(Value(shell)) => Err(format!(
            "nothing is known of the shell '{}'; there are {}",
            shell.to_string_lossy(),
            SHELLS.join(", ")
        )
        .into()),
        None => Err(format!("which shell? There are {}", SHELLS.join(", ")).into()),
        Some(other) => Err(other.unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_helps() {
        let words_of = |wanted: &str| {
            let (place, helps) = places().into_iter().find(|(place, _)| place == wanted).unwrap();
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
                "scale",
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
        assert_eq!(words_of("completions"), ["bash", "zsh", "-h", "--help"]);
        // Every benchmark has a place of its own, and the other way round.
        let named: Vec<&str> = bench::HELPS.iter().map(|(name, _)| *name).collect();
        let listed: Vec<&str> = commands(bench::HELP).collect();
        assert_eq!(listed, named);
    }

    #[test]
    fn a_command_is_found_among_its_arguments() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            options_of(&words).map(|(place, _)| place).unwrap()
        };
        assert_eq!(of(&["bench", "rows", "--all"]), "bench rows");
        assert_eq!(of(&["devices", "--json", "x"]), "devices");
        assert_eq!(of(&["--all"]), "");
    }
}
