//! Words, numbers and marks of PTX.

use super::{Problem, Read};

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A name, a directive or an operation with its modifiers: letters, digits and `_$%.`.
    Word(String),
    Integer(u64),
    /// The bits of a number written `0fXXXXXXXX`.
    Single(u32),
    /// The bits of a number written `0dXXXXXXXXXXXXXXXX`.
    Double(u64),
    Text(String),
    Mark(char),
}

/// A token and the line it stands in.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    pub token: Token,
    pub line: u32,
}

fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_$%.".contains(c)
}

/// Splits a text into tokens, without comments.
pub fn tokens(text: &str) -> Read<Vec<Located>> {
    let mut found = vec![];
    let mut line = 1;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '\n' {
            line += 1;
            rest = &rest[1..];
        } else if c.is_whitespace() || c == '\0' {
            rest = &rest[c.len_utf8()..];
        } else if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |at| at + 2);
            line += rest[..end].matches('\n').count() as u32;
            rest = &rest[end..];
        } else {
            let (token, length) = one(rest, line)?;
            found.push(Located { token, line });
            rest = &rest[length..];
        }
    }
    Ok(found)
}

fn one(rest: &str, line: u32) -> Read<(Token, usize)> {
    let first = rest.chars().next().unwrap_or(' ');
    let word = || rest.find(|c| !in_word(c)).unwrap_or(rest.len());
    if first == '"' {
        let end = rest[1..].find('"').map(|at| at + 1);
        let end = end.ok_or(Problem { line, text: "a text without end".into() })?;
        return Ok((Token::Text(rest[1..end].into()), end + 1));
    }
    if first.is_ascii_digit() {
        let length = word();
        return number(&rest[..length], line).map(|token| (token, length));
    }
    if in_word(first) {
        let length = word();
        return Ok((Token::Word(rest[..length].into()), length));
    }
    Ok((Token::Mark(first), first.len_utf8()))
}

fn number(text: &str, line: u32) -> Read<Token> {
    let bad = || Problem { line, text: format!("{text} is no number") };
    let radix = |digits: &str, radix| u64::from_str_radix(digits, radix).map_err(|_| bad());
    if let Some(digits) = text.strip_prefix("0f").or(text.strip_prefix("0F")) {
        return Ok(Token::Single(radix(digits, 16)? as u32));
    }
    if let Some(digits) = text.strip_prefix("0d").or(text.strip_prefix("0D")) {
        return Ok(Token::Double(radix(digits, 16)?));
    }
    if text.contains('.') {
        return Ok(Token::Word(text.into()));
    }
    let digits = text.trim_end_matches('U');
    let value = if let Some(digits) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        radix(digits, 16)?
    } else if let Some(digits) = digits.strip_prefix("0b") {
        radix(digits, 2)?
    } else if digits.len() > 1 && digits.starts_with('0') {
        radix(&digits[1..], 8)?
    } else {
        radix(digits, 10)?
    };
    Ok(Token::Integer(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split() {
        let text = "@!%p1 ld.global.v2.f32 {%f1,%f2}, [%rd1+-8]; // no\n$L_1: mov.f64 %fd, 0d3FF0000000000000;/* */";
        let found: Vec<Token> = tokens(text).unwrap().into_iter().map(|at| at.token).collect();
        let word = |text: &str| Token::Word(text.into());
        assert_eq!(
            found[..4],
            [Token::Mark('@'), Token::Mark('!'), word("%p1"), word("ld.global.v2.f32")]
        );
        assert!(found.contains(&Token::Double(0x3ff0_0000_0000_0000)));
        assert!(found.contains(&word("$L_1")) && found.contains(&Token::Integer(8)));
        assert_eq!(number("0xffU", 1), Ok(Token::Integer(255)));
        assert_eq!(number("0f3f800000", 1), Ok(Token::Single(0x3f80_0000)));
        assert_eq!(number("017", 1), Ok(Token::Integer(15)));
        assert!(number("12ab", 7).is_err_and(|problem| problem.line == 7));
    }
}
