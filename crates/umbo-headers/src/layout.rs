//! Comments, prototypes and macros, broken into lines.

/// The largest width of a line of a header.
const WIDTH: usize = 100;

/// The definition of a macro, in as few lines as it fits into.
pub(crate) fn define(name: &str, value: &str) -> String {
    let start = format!("#define {name}");
    if start.len() + 1 + value.len() <= WIDTH {
        return format!("{start} {value}\n");
    }
    let mut text = start;
    let mut line = String::new();
    for word in value.split(' ') {
        if line.is_empty() || line.len() + 3 + word.len() > WIDTH {
            text.push_str(&line);
            text.push_str(" \\\n");
            line = if line.is_empty() { " " } else { "   " }.to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    text + &line + "\n"
}

/// A comment that documents what comes next.
pub(crate) fn comment(lines: &[String], indentation: &str, text: &mut String) {
    let lines = broken(lines, WIDTH - indentation.len() - 3);
    match lines.as_slice() {
        [] => {}
        [line] if indentation.len() + line.len() + 7 <= WIDTH => {
            text.push_str(&format!("{indentation}/** {line} */\n"));
        }
        _ => {
            text.push_str(&format!("{indentation}/**\n"));
            for line in &lines {
                text.push_str(format!("{indentation} * {line}").trim_end());
                text.push('\n');
            }
            text.push_str(&format!("{indentation} */\n"));
        }
    }
}

/// The lines, those that are too long broken: what is left over begins the next line of the same
/// paragraph, or is a line by itself, indented as continued lines of lists and tags are.
fn broken(lines: &[String], width: usize) -> Vec<String> {
    let mut result: Vec<String> = Vec::new();
    let mut rest = String::new();
    for line in lines {
        let words = line.trim_start();
        let begins = words.is_empty() || words.starts_with(['-', '@', '|']);
        let mut line = line.clone();
        if !rest.is_empty() && begins {
            result.push(std::mem::take(&mut rest));
        } else if !rest.is_empty() {
            let indentation = &line[..line.len() - words.len()];
            line = format!("{indentation}{} {words}", rest.trim_start());
            rest.clear();
        }
        if line.len() > width
            && let Some(end) = line[..=width].rfind(' ')
        {
            let continued = if line.starts_with(['-', '@', ' ']) {
                "  "
            } else {
                ""
            };
            rest = format!("{continued}{}", &line[end + 1..]);
            line.truncate(end);
        }
        result.push(line);
    }
    result.extend(Some(rest).filter(|rest| !rest.is_empty()));
    result
}

/// A prototype, in as few lines as it fits into.
pub(crate) fn prototype(start: &str, parameters: &[String], text: &mut String) {
    let line = format!("{start}{});\n", parameters.join(", "));
    if line.len() <= WIDTH + 1 {
        text.push_str(&line);
        return;
    }
    text.push_str(start);
    let mut line = String::new();
    for (position, parameter) in parameters.iter().enumerate() {
        let end = if position + 1 < parameters.len() {
            ","
        } else {
            ");"
        };
        if line.is_empty() || line.len() + parameter.len() + end.len() + 1 > WIDTH {
            text.push_str(&line);
            line = format!("\n    {parameter}{end}");
        } else {
            line.push_str(&format!(" {parameter}{end}"));
        }
    }
    text.push_str(&line);
    text.push('\n');
}
