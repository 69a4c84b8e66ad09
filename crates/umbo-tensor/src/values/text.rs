//! Values as text for people.

use std::fmt::{self, Write};

use crate::Tensor;
use crate::values::Value;
use crate::values::variable::Variable;

/// A function that returns the contents of a variable, if the caller may read it here.
type Contents<'a> = &'a dyn Fn(&Variable) -> Option<Tensor>;

/// A value as text, with the contents of its variables where `contents` returns them.
pub struct ValueText<'a> {
    value: &'a Value,
    contents: Contents<'a>,
}

impl Value {
    /// The value as text. `contents` returns the contents of variables. `Display` leaves them out:
    /// whether a variable may be read depends on who writes it at the time.
    pub fn text_with<'a>(&'a self, contents: Contents<'a>) -> ValueText<'a> {
        ValueText {
            value: self,
            contents,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text_with(&|_| None).fmt(formatter)
    }
}

impl fmt::Display for ValueText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contents = self.contents;
        let mut lines = Lines {
            to: formatter,
            indent: 0,
            ended: false,
            contents,
        };
        lines.value(self.value)?;
        if lines.ended {
            lines.to.write_char('\n')
        } else {
            Ok(())
        }
    }
}

/// Text in which each line but the first begins at one column. It is written in one pass for any
/// depth of the nest.
struct Lines<'a, 'b> {
    to: &'a mut fmt::Formatter<'b>,
    indent: usize,
    /// Whether a line has ended. The next one begins when there is text for it.
    ended: bool,
    contents: Contents<'a>,
}

impl Write for Lines<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for line in text.split_inclusive('\n') {
            if self.ended {
                self.begin_line()?;
            }
            let content = line.strip_suffix('\n');
            self.ended = content.is_some();
            self.to.write_str(content.unwrap_or(line))?;
        }
        Ok(())
    }
}

impl Lines<'_, '_> {
    fn begin_line(&mut self) -> fmt::Result {
        self.ended = false;
        write!(self.to, "\n{:1$}", "", self.indent)
    }

    fn value(&mut self, value: &Value) -> fmt::Result {
        match value {
            Value::Tensor(tensor) => write!(self, "{tensor}"),
            Value::Variable(variable) => match (self.contents)(variable) {
                Some(contents) => write!(self, "{variable:?}: {contents}"),
                None => write!(self, "{variable:?}"),
            },
            Value::IndexedSlices(slices) => {
                write!(self, "indexed slices of shape {}", slices.dense_shape())?;
                let parts = [("values", slices.values()), ("indices", slices.indices())];
                self.entries(parts.into_iter(), |lines, part| write!(lines, "{part}"))
            }
            Value::PerReplica(value) => {
                self.write_str("per-replica value")?;
                self.entries(value.values().iter().enumerate(), Lines::value)
            }
            Value::Nest(nest) => {
                self.write_str(nest.kind_name().trim_start_matches("a "))?;
                match nest.names() {
                    Some(names) => self.entries(names.iter().zip(nest.items()), Lines::value),
                    None => self.entries(nest.items().iter().enumerate(), Lines::value),
                }
            }
        }
    }

    /// Writes each entry after its number or name, indented, below the title.
    fn entries<N: fmt::Display, T>(
        &mut self,
        entries: impl Iterator<Item = (N, T)>,
        mut write: impl FnMut(&mut Self, T) -> fmt::Result,
    ) -> fmt::Result {
        for (name, entry) in entries {
            self.begin_line()?;
            write!(self, "  {name}: ")?;
            self.indent += 4;
            write(self, entry)?;
            self.indent -= 4;
        }
        self.ended = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Tensor;
    use crate::values::Value;

    #[test]
    fn a_per_replica_value_has_one_numbered_entry_for_each_component() {
        let parts = [1.0f32, 2.0].map(|number| Tensor::scalar(number).unwrap());
        let value = Value::per_replica(parts.into()).unwrap();
        let nest = Value::structure(vec![("x".into(), value)]).unwrap();
        let text = nest.to_string();
        assert!(
            text.starts_with("struct\n  x: per-replica value\n"),
            "{text}"
        );
        for line in ["0: float32 [] on CPU:0", "1: float32 [] on CPU:0"] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn nests_in_nests_are_indented_below_their_names_and_end_in_one_line_break() {
        let inner = Value::tuple(vec![Value::nothing(), Value::tuple(vec![]).unwrap()]).unwrap();
        let outer = Value::structure(vec![("a".into(), inner), ("b".into(), Value::nothing())]);
        let expected = "struct\n  a: tuple\n      0: tuple\n      1: tuple\n  b: tuple\n";
        assert_eq!(outer.unwrap().to_string(), expected);
    }
}
