//! The signatures of operations, by which a saved position knows its pipeline again.
//!
//! A signature is a kind and parameters. Both are a part of saved positions, so they never change:
//! a kind keeps its name and its meaning, and a parameter that is added later is left out where it
//! has the value that it stands for without being named. `docs/internals/formats.md` lists them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::elements::spec::{ElementSpec, LeafSpec};
use umbo_base::checksum::Crc32;
use umbo_base::error::{Error, Result};
use umbo_tensor::values::nest::NestKind;

/// The kind of an operation, and the parameters on which the meaning of a position depends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Signature {
    kind: String,
    #[serde(flatten)]
    parameters: BTreeMap<String, Json>,
}

impl Signature {
    /// The signature of an operation without parameters.
    pub(crate) fn new(kind: &str) -> Signature {
        Signature {
            kind: kind.to_owned(),
            parameters: BTreeMap::new(),
        }
    }

    /// The signature with another parameter.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Json>) -> Signature {
        self.parameters.insert(name.to_owned(), value.into());
        self
    }
}

/// The checksum of the signatures of a pipeline.
pub(crate) fn checksum(stages: &[Signature]) -> Result<Crc32> {
    let text = serde_json::to_vec(stages);
    text.map(|text| Crc32::of(&text))
        .map_err(|error| Error::Internal(format!("the signatures of a pipeline: {error}")))
}

/// For messages: `batch(drop_remainder: false, size: 3)`.
impl fmt::Display for Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.kind)?;
        for (index, (name, value)) in self.parameters.iter().enumerate() {
            let separator = if index == 0 { "(" } else { ", " };
            write!(formatter, "{separator}{name}: {}", shown(value))?;
        }
        formatter.write_str(if self.parameters.is_empty() { "" } else { ")" })
    }
}

/// The value of a parameter, without the quotes of JSON.
fn shown(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(", "))
        }
        value => value.to_string(),
    }
}

impl From<&LeafSpec> for Json {
    /// `float32[?,3]`: the dtype, and the sizes of the dimensions, or `?` where elements differ.
    fn from(spec: &LeafSpec) -> Json {
        Json::String(leaf(spec))
    }
}

impl From<&ElementSpec> for Json {
    /// A tuple is `(int64[],float32[3])`, a list has square brackets, and a struct is
    /// `{"label":int64[],"pixels":float32[28,28]}`, with its fields in their order.
    fn from(spec: &ElementSpec) -> Json {
        Json::String(nested(spec))
    }
}

fn leaf(spec: &LeafSpec) -> String {
    let sizes: Vec<String> = spec
        .shape
        .iter()
        .map(|size| size.map_or("?".into(), |size| size.to_string()))
        .collect();
    format!("{}[{}]", spec.dtype, sizes.join(","))
}

fn nested(spec: &ElementSpec) -> String {
    let nest = match spec {
        ElementSpec::Leaf(spec) => return leaf(spec),
        ElementSpec::PerReplica(replicas, spec) => return format!("{replicas}x{}", leaf(spec)),
        ElementSpec::Nest(nest) => nest,
    };
    let items = nest.items().iter().map(nested);
    let items: Vec<String> = match nest.names() {
        None => items.collect(),
        // Quotes and control characters are escaped as in JSON, so that no name looks like a field.
        Some(names) => names
            .iter()
            .zip(items)
            .map(|(name, item)| format!("{}:{item}", Json::from(name.as_str())))
            .collect(),
    };
    let items = items.join(",");
    match nest.kind() {
        NestKind::Tuple => format!("({items})"),
        NestKind::List => format!("[{items}]"),
        NestKind::Struct(_) => format!("{{{items}}}"),
    }
}

#[cfg(test)]
mod tests {
    use umbo_tensor::DType;
    use umbo_tensor::values::limits::MAX_NEST_DEPTH;

    use super::*;

    fn spec(dtype: DType, shape: &[Option<usize>]) -> ElementSpec {
        ElementSpec::Leaf(LeafSpec {
            dtype,
            shape: shape.to_vec(),
        })
    }

    #[test]
    fn signatures_are_saved_and_shown_with_their_parameters() {
        let signature = Signature::new("cut")
            .with("sizes", vec![3, 1])
            .with("spec", &spec(DType::Int8, &[None]))
            .with("count", None::<u64>);
        let text = serde_json::to_string(&signature).unwrap();
        assert_eq!(
            text,
            r#"{"kind":"cut","count":null,"sizes":[3,1],"spec":"int8[?]"}"#
        );
        let read: Signature = serde_json::from_str(&text).unwrap();
        assert_eq!(read, signature);
        let message = "cut(count: null, sizes: [3, 1], spec: int8[?])";
        assert_eq!(read.to_string(), message);
        assert_eq!(Signature::new("cache").to_string(), "cache");
        for wrong in ["{}", "[]", r#"{"kind":1}"#, r#"{"kind":"a","kind":"b"}"#] {
            assert!(serde_json::from_str::<Signature>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn element_specs_are_written_without_ambiguity() {
        let image = spec(DType::Float32, &[None, Some(3)]);
        let scalar = spec(DType::Int64, &[]);
        let list = ElementSpec::list(vec![scalar.clone(), image.clone()]).unwrap();
        let fields = vec![
            ("x".into(), ElementSpec::tuple(vec![image, list]).unwrap()),
            ("y\":bool[],\"".into(), scalar),
        ];
        let fields = ElementSpec::structure(fields).unwrap();
        let expected = r#"{"x":(float32[?,3],[int64[],float32[?,3]]),"y\":bool[],\"":int64[]}"#;
        assert_eq!(Json::from(&fields), Json::from(expected));
    }

    /// Whatever can be an element can be in a position, which is read with limited depth.
    #[test]
    fn the_deepest_spec_is_read_back() {
        let mut deepest = spec(DType::UInt8, &[Some(1)]);
        for _ in 0..MAX_NEST_DEPTH {
            deepest = ElementSpec::tuple(vec![deepest]).unwrap();
        }
        let signature = Signature::new("map").with("element_spec", &deepest);
        let text = serde_json::to_string(&signature).unwrap();
        assert_eq!(serde_json::from_str::<Signature>(&text).unwrap(), signature);
    }
}
