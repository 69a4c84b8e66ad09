//! Small changes to PTX, one at a time: a test of a kernel that does not notice one checks too
//! little, or the change makes no difference.

/// One line of a text changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The number of the line, from 1.
    pub line: usize,
    /// The line as it was, without blanks around it.
    pub before: String,
    /// The line as it is now.
    pub after: String,
}

impl Mutant {
    /// The text with the change.
    pub fn apply(&self, text: &str) -> String {
        let lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| if index + 1 == self.line { self.after.as_str() } else { line });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// A text with one of its kernels, and the functions that it names; `None` if there is no such
/// kernel.
pub fn isolate(text: &str, kernel: &str) -> Option<String> {
    let mut only = String::new();
    let text = keep(text, ".entry", |name, body| {
        if name == kernel {
            only.push_str(body);
        }
        name == kernel
    });
    (!only.is_empty()).then(|| keep(&text, ".func", |name, _| only.contains(name)))
}

/// A text without the functions of a kind that are not wanted. Declarations stay.
fn keep(text: &str, kind: &str, mut wanted: impl FnMut(&str, &str) -> bool) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(kind) {
        let start = rest[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let after = rest[at + kind.len()..].trim_start();
        // A result stands before the name.
        let after = match after.strip_prefix('(') {
            Some(result) => result.split_once(')').map_or("", |(_, name)| name),
            None => after,
        };
        let name = after.trim_start().split(|c: char| c == '(' || c.is_whitespace()).next();
        let declared = rest[at..].find(';').map(|end| at + end + 1);
        let defined = end_of_body(rest, at);
        let body = rest[at..].find('{').map(|open| at + open);
        let (end, is_declaration) = match (declared, defined, body) {
            (Some(end), _, Some(body)) if end < body => (end, true),
            (_, Some(end), _) => (end, false),
            (Some(end), ..) => (end, true),
            _ => (rest.len(), true),
        };
        kept.push_str(&rest[..start]);
        if is_declaration || wanted(name.unwrap_or(""), &rest[start..end]) {
            kept.push_str(&rest[start..end]);
        }
        rest = &rest[end..];
    }
    kept.push_str(rest);
    kept
}

/// The place after the body that begins after `from`.
fn end_of_body(text: &str, from: usize) -> Option<usize> {
    let open = from + text[from..].find('{')?;
    let mut depth = 0;
    for (at, c) in text[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(open + at + 1);
        }
    }
    None
}

/// Beginnings of operations and what each is exchanged for.
const OPERATIONS: [(&str, &str); 46] = [
    ("add.", "sub."),
    ("sub.", "add."),
    ("mul.rn.", "add.rn."),
    ("mul.lo.", "add."),
    ("div.rn.", "mul.rn."),
    ("div.", "rem."),
    ("rem.", "div."),
    ("fma.rn.f32", "mad.rn.f32"),
    ("min.", "max."),
    ("max.", "min."),
    ("sqrt.rn.", "abs."),
    ("rcp.rn.", "neg."),
    ("neg.", "mov."),
    ("abs.", "mov."),
    ("not.", "mov."),
    ("and.", "or."),
    ("or.", "and."),
    ("xor.", "or."),
    ("shl.b16", "shr.u16"),
    ("shl.b32", "shr.u32"),
    ("shl.b64", "shr.u64"),
    ("shr.u16", "shl.b16"),
    ("shr.u32", "shl.b32"),
    ("shr.u64", "shl.b64"),
    ("shr.s32", "shr.u32"),
    ("shr.s64", "shr.u64"),
    ("setp.eq.", "setp.ne."),
    ("setp.ne.", "setp.eq."),
    ("setp.lt.", "setp.le."),
    ("setp.le.", "setp.lt."),
    ("setp.gt.", "setp.ge."),
    ("setp.ge.", "setp.gt."),
    ("setp.equ.", "setp.neu."),
    ("setp.neu.", "setp.equ."),
    ("setp.ltu.", "setp.lt."),
    ("setp.leu.", "setp.le."),
    ("setp.gtu.", "setp.gt."),
    ("setp.geu.", "setp.ge."),
    ("setp.nan.", "setp.num."),
    ("setp.num.", "setp.nan."),
    ("cvt.rn.f32.f64", "cvt.rz.f32.f64"),
    ("cvt.rn.f16.f32", "cvt.rz.f16.f32"),
    ("cvt.rzi.", "cvt.rni."),
    ("cvt.rni.", "cvt.rzi."),
    ("atom.global.add", "atom.global.max"),
    ("red.global.add", "red.global.max"),
];

/// All mutants of a text. Changes: another operation, a comparison with or without its bound, a
/// choice the other way round, a condition turned round, a constant or an offset one larger, a
/// store, a barrier or a guarded branch left out.
pub fn mutants(text: &str) -> Vec<Mutant> {
    let mut found = vec![];
    for (index, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("").trim();
        if code.is_empty() || code.starts_with('.') || !code.ends_with(';') {
            continue;
        }
        for after in changes(code) {
            if after != code {
                found.push(Mutant { line: index + 1, before: code.into(), after });
            }
        }
    }
    found
}

/// All changes of one instruction.
fn changes(code: &str) -> Vec<String> {
    let mut found = vec![];
    let (guard, instruction) = match code.strip_prefix('@') {
        Some(rest) => match rest.split_once(char::is_whitespace) {
            Some((guard, instruction)) => (Some(guard), instruction.trim()),
            None => return found,
        },
        None => (None, code),
    };
    if let Some(guard) = guard {
        let turned = match guard.strip_prefix('!') {
            Some(plain) => format!("@{plain} {instruction}"),
            None => format!("@!{guard} {instruction}"),
        };
        found.push(turned);
        found.push(String::new());
    }
    let prefix = guard.map_or(String::new(), |guard| format!("@{guard} "));
    for (from, to) in OPERATIONS {
        if let Some(rest) = instruction.strip_prefix(from) {
            found.push(format!("{prefix}{to}{rest}"));
            break;
        }
    }
    let Some((operation, operands)) = instruction.split_once(char::is_whitespace) else {
        return found;
    };
    if operation.starts_with("st.") || operation.starts_with("bar.") {
        found.push(String::new());
    }
    if operation.starts_with("selp.")
        && let [d, a, b, condition] =
            operands.trim_end_matches(';').split(',').map(str::trim).collect::<Vec<_>>()[..]
    {
        found.push(format!("{prefix}{operation} {d}, {b}, {a}, {condition};"));
    }
    let memory = operation.starts_with("ld.") || operation.starts_with("st.");
    if !memory && !operation.starts_with("bra") && !operation.starts_with("bar") {
        found.extend(
            larger_constant(operands).map(|operands| format!("{prefix}{operation} {operands}")),
        );
    }
    if memory && !operation.contains(".param") {
        found.extend(
            larger_offset(operation, operands)
                .map(|operands| format!("{prefix}{operation} {operands}")),
        );
    }
    found
}

/// The operands with the last of them one larger, if it is an integer.
fn larger_constant(operands: &str) -> Option<String> {
    let operands = operands.trim_end_matches(';');
    let (before, last) = operands.rsplit_once(',')?;
    let value: i64 = last.trim().parse().ok()?;
    Some(format!("{before}, {};", value + 1))
}

/// The operands with the address one element further.
fn larger_offset(operation: &str, operands: &str) -> Option<String> {
    let bits: String = operation.rsplit('.').next()?.chars().filter(char::is_ascii_digit).collect();
    let bytes = bits.parse::<i64>().ok()? / 8;
    let (before, rest) = operands.split_once('[')?;
    let (address, after) = rest.split_once(']')?;
    let address = match address.split_once('+') {
        Some((base, offset)) => format!("{base}+{}", offset.trim().parse::<i64>().ok()? + bytes),
        None => format!("{address}+{bytes}"),
    };
    Some(format!("{before}[{address}]{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_change_is_made() {
        let after = |code: &str| changes(code);
        assert_eq!(after("add.rn.f32 %f1, %f2, %f3;"), ["sub.rn.f32 %f1, %f2, %f3;"]);
        assert_eq!(after("@%p1 bra $L_1;"), ["@!%p1 bra $L_1;", ""].map(String::from));
        assert_eq!(
            after("setp.lt.u32 %p1, %r1, 32;"),
            ["setp.le.u32 %p1, %r1, 32;", "setp.lt.u32 %p1, %r1, 33;"]
        );
        assert_eq!(after("selp.b32 %r1, 0, %r2, %p1;"), ["selp.b32 %r1, %r2, 0, %p1;"]);
        assert_eq!(
            after("st.global.f32 [%rd1+8], %f1;"),
            ["", "st.global.f32 [%rd1+12], %f1;"].map(String::from)
        );
        assert_eq!(after("ret;"), [] as [&str; 0]);
    }

    #[test]
    fn one_kernel_is_left_with_what_stands_outside() {
        let text = ".version 6.0\n.shared .b8 t[4];\n.entry a() { { ret; } }\n.visible .entry b()\n{ exit; }\n// end\n";
        let only = isolate(text, "b").expect("it is there");
        assert!(only.contains(".shared") && only.contains("exit") && !only.contains("ret;"));
        assert_eq!(isolate(text, "c"), None);
    }
}
