//! The bodies of inline functions, which stand in headers of their own, so that a header that is
//! read has declarations.

/// The lines around functions that only other bodies call: all of them goes to the bodies.
pub(crate) const HELPERS_BEGIN: &str = "/* helpers */";
/// The end of such functions.
pub(crate) const HELPERS_END: &str = "/* end of helpers */";

/// Takes bodies of more than one line out of a header. The second text is a header with them, if
/// there are any, which the first one includes at its end.
pub(crate) fn split(name: &str, text: &str) -> (String, Option<String>) {
    let mut header = String::new();
    let mut bodies = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == HELPERS_BEGIN {
            for line in lines.by_ref().take_while(|line| *line != HELPERS_END) {
                push(&mut bodies, line);
            }
            continue;
        }
        let start = line.strip_prefix("UMBO_MUST_USE ").unwrap_or(line);
        if !start.starts_with("static inline ") {
            push(&mut header, line);
            continue;
        }
        let mut function = vec![line];
        while function.last().is_some_and(|last| *last != "}") {
            let Some(next) = lines.next() else { break };
            function.push(next);
        }
        let opening = function.iter().position(|line| line.ends_with('{'));
        let length = opening.map_or(0, |opening| opening + 1);
        if function.len() <= length + 2 {
            function.iter().for_each(|line| push(&mut header, line));
            continue;
        }
        for (position, line) in function.iter().enumerate() {
            if position + 1 < length {
                push(&mut header, line);
            } else if position + 1 == length {
                push(
                    &mut header,
                    &format!("{};", line.trim_end_matches([' ', '{'])),
                );
            }
            push(&mut bodies, if position == 0 { start } else { line });
        }
        bodies.push('\n');
    }
    if bodies.is_empty() {
        return (header, None);
    }
    let end = header.rfind("#endif").unwrap_or(header.len());
    header.insert_str(end, &format!("#include <umbo/inline/{name}>\n\n"));
    (header, Some(header_of(name, bodies.trim())))
}

/// The header of the bodies of a header.
fn header_of(name: &str, bodies: &str) -> String {
    let guard = format!(
        "UMBO_INLINE_{}",
        name.to_uppercase().replace(['.', '/'], "_")
    );
    format!(
        "/* Generated from src; do not edit. The bodies of inline functions of {name}. */
#ifndef {guard}
#define {guard}

#include <umbo/{name}>

#ifdef __cplusplus
extern \"C\" {{
#endif

{}

#ifdef __cplusplus
}} /* extern \"C\" */
#endif

#endif
",
        bodies
    )
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
