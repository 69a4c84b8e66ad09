//! Values in words, for people who look into them.

use std::fmt::{self, Write};

use crate::values::Value;

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Tensor(tensor) => write!(formatter, "{tensor}"),
            Value::Variable(variable) => {
                write!(formatter, "{variable:?}: {}", variable.visible())
            }
            Value::IndexedSlices(slices) => {
                let parts = [("values", slices.values()), ("indices", slices.indices())];
                let title = format!("indexed slices of shape {}", slices.dense_shape());
                entries(formatter, &title, parts.into_iter())
            }
            Value::PerReplica(value) => {
                entries(formatter, "per-replica value", value.values().iter().enumerate())
            }
            Value::Tuple(items) => entries(formatter, "tuple", items.iter().enumerate()),
            Value::Struct(fields) => {
                entries(formatter, "struct", fields.iter().map(|(name, field)| (name, field)))
            }
        }
    }
}

/// A title, then each entry behind its number or name, indented.
fn entries<N: fmt::Display, T: fmt::Display>(
    formatter: &mut fmt::Formatter<'_>,
    title: &str,
    entries: impl Iterator<Item = (N, T)>,
) -> fmt::Result {
    formatter.write_str(title)?;
    for (name, entry) in entries {
        write!(formatter, "\n  {name}: ")?;
        for (number, line) in entry.to_string().lines().enumerate() {
            if number > 0 {
                formatter.write_str("\n    ")?;
            }
            formatter.write_str(line)?;
        }
    }
    formatter.write_char('\n')
}

#[cfg(test)]
mod tests {
    use crate::tensor::Tensor;
    use crate::values::Value;

    #[test]
    fn a_per_replica_value_has_one_numbered_entry_for_each_component() {
        let parts = [1.0f32, 2.0].map(|number| Tensor::scalar(number).unwrap());
        let value = Value::per_replica(parts.into()).unwrap();
        let nest = Value::structure(vec![("x".into(), value)]).unwrap();
        let text = nest.to_string();
        assert!(text.starts_with("struct\n  x: per-replica value\n"), "{text}");
        for line in ["0: float32 [] on CPU:0", "1: float32 [] on CPU:0"] {
            assert!(text.contains(line), "{text}");
        }
    }
}
