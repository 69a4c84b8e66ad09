//! Tensors as data: element types, elements, and tensor literals of the case language.

use half::{bf16, f16};
use serde_json::Value as Json;
use umbo::*;

use crate::failure::{Result, wrong};

/// An element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dtype {
    /// The library's number of it.
    pub code: umbo_dtype,
    /// Its name in cases.
    pub name: &'static str,
    /// Bytes of an element.
    pub size: usize,
}

const DTYPES: [Dtype; 13] = [
    Dtype {
        code: UMBO_DTYPE_FLOAT16,
        name: "float16",
        size: 2,
    },
    Dtype {
        code: UMBO_DTYPE_BFLOAT16,
        name: "bfloat16",
        size: 2,
    },
    Dtype {
        code: UMBO_DTYPE_FLOAT32,
        name: "float32",
        size: 4,
    },
    Dtype {
        code: UMBO_DTYPE_FLOAT64,
        name: "float64",
        size: 8,
    },
    Dtype {
        code: UMBO_DTYPE_INT8,
        name: "int8",
        size: 1,
    },
    Dtype {
        code: UMBO_DTYPE_INT16,
        name: "int16",
        size: 2,
    },
    Dtype {
        code: UMBO_DTYPE_INT32,
        name: "int32",
        size: 4,
    },
    Dtype {
        code: UMBO_DTYPE_INT64,
        name: "int64",
        size: 8,
    },
    Dtype {
        code: UMBO_DTYPE_UINT8,
        name: "uint8",
        size: 1,
    },
    Dtype {
        code: UMBO_DTYPE_UINT16,
        name: "uint16",
        size: 2,
    },
    Dtype {
        code: UMBO_DTYPE_UINT32,
        name: "uint32",
        size: 4,
    },
    Dtype {
        code: UMBO_DTYPE_UINT64,
        name: "uint64",
        size: 8,
    },
    Dtype {
        code: UMBO_DTYPE_BOOL,
        name: "bool",
        size: 1,
    },
];

impl Dtype {
    /// The element type with this name.
    pub fn named(name: &str) -> Result<Dtype> {
        let found = DTYPES.iter().find(|dtype| dtype.name == name);
        found
            .copied()
            .map_or_else(|| wrong(format!("unknown dtype {name}")), Ok)
    }

    /// The element type with this number.
    pub fn of_code(code: umbo_dtype) -> Result<Dtype> {
        let found = DTYPES.iter().find(|dtype| dtype.code == code);
        found
            .copied()
            .map_or_else(|| wrong(format!("the library gave dtype {code}")), Ok)
    }

    /// Whether it is one of the four floating-point types.
    pub fn is_float(self) -> bool {
        self.code <= UMBO_DTYPE_FLOAT64
    }

    /// The float as this type represents it.
    pub fn round(self, value: f64) -> f64 {
        match self.code {
            UMBO_DTYPE_FLOAT16 => f16::from_f64(value).to_f64(),
            UMBO_DTYPE_BFLOAT16 => bf16::from_f64(value).to_f64(),
            UMBO_DTYPE_FLOAT32 => f64::from(value as f32),
            _ => value,
        }
    }

    /// The integer as this type keeps it: modulo its size.
    pub fn wrap(self, value: i128) -> i128 {
        match self.code {
            UMBO_DTYPE_INT8 => (value as i8).into(),
            UMBO_DTYPE_INT16 => (value as i16).into(),
            UMBO_DTYPE_INT32 => (value as i32).into(),
            UMBO_DTYPE_INT64 => (value as i64).into(),
            UMBO_DTYPE_UINT8 => (value as u8).into(),
            UMBO_DTYPE_UINT16 => (value as u16).into(),
            UMBO_DTYPE_UINT32 => (value as u32).into(),
            UMBO_DTYPE_UINT64 => (value as u64).into(),
            _ => value,
        }
    }
}

/// An element, exactly.
#[derive(Clone, Copy, Debug)]
pub enum Element {
    /// Of a floating-point type; a double holds each of them.
    Float(f64),
    /// Of an integer type.
    Integer(i128),
    /// Of bool.
    Bool(bool),
}

impl Element {
    /// Equal, or as close as `tolerance` allows. NaN equals NaN; infinities must agree.
    pub fn matches(self, expected: Element, tolerance: f64) -> bool {
        match (self, expected) {
            (Element::Float(a), Element::Float(b)) => {
                a == b
                    || a.is_nan() && b.is_nan()
                    || a.is_finite()
                        && b.is_finite()
                        && (a - b).abs() <= tolerance * b.abs().max(1.0)
            }
            (Element::Integer(a), Element::Integer(b)) => {
                a == b || (a - b).abs() as f64 <= tolerance * (b as f64).abs().max(1.0)
            }
            (Element::Bool(a), Element::Bool(b)) => a == b,
            _ => false,
        }
    }
}

/// A tensor's type, shape and elements.
#[derive(Clone, Debug)]
pub struct Literal {
    /// The type of the elements.
    pub dtype: Dtype,
    /// The sizes of the dimensions.
    pub shape: Vec<i64>,
    /// The elements in row-major order.
    pub data: Vec<Element>,
}

impl PartialEq for Literal {
    fn eq(&self, other: &Literal) -> bool {
        self.dtype == other.dtype
            && self.shape == other.shape
            && self.data.len() == other.data.len()
            && self
                .data
                .iter()
                .zip(&other.data)
                .all(|(a, b)| a.matches(*b, 0.0))
    }
}

impl Literal {
    /// A scalar.
    pub fn scalar(dtype: &str, element: Element) -> Result<Literal> {
        Ok(Literal {
            dtype: Dtype::named(dtype)?,
            shape: Vec::new(),
            data: vec![element],
        })
    }

    /// Reads a tensor literal.
    pub fn parse(json: &Json) -> Result<Literal> {
        let broken = || wrong(format!("not a tensor literal: {json}"));
        let (Some(dtype), Some(shape), Some(data)) = (
            json["dtype"].as_str(),
            json["shape"].as_array(),
            json["data"].as_array(),
        ) else {
            return broken();
        };
        let dtype = Dtype::named(dtype)?;
        let sizes: Option<Vec<i64>> = shape
            .iter()
            .map(|size| size.as_i64().filter(|size| *size >= 0))
            .collect();
        let Some(shape) = sizes else { return broken() };
        let data = data.iter().map(|element| parse_element(dtype, element));
        let data = data.collect::<Result<Vec<_>>>()?;
        let count = shape
            .iter()
            .try_fold(1i64, |count, size| count.checked_mul(*size));
        if count != i64::try_from(data.len()).ok() {
            return broken();
        }
        Ok(Literal { dtype, shape, data })
    }

    /// The elements as they lie in memory, in 64-bit words so that any type is aligned.
    pub fn memory(&self) -> Vec<u64> {
        let mut bytes = Vec::with_capacity(self.data.len() * self.dtype.size + 8);
        for element in &self.data {
            match (*element, self.dtype.code) {
                (Element::Float(value), UMBO_DTYPE_FLOAT16) => {
                    bytes.extend(f16::from_f64(value).to_ne_bytes());
                }
                (Element::Float(value), UMBO_DTYPE_BFLOAT16) => {
                    bytes.extend(bf16::from_f64(value).to_ne_bytes());
                }
                (Element::Float(value), UMBO_DTYPE_FLOAT32) => {
                    bytes.extend((value as f32).to_ne_bytes());
                }
                (Element::Float(value), _) => bytes.extend(value.to_ne_bytes()),
                (Element::Bool(value), _) => bytes.push(value.into()),
                (Element::Integer(value), code) => match code {
                    UMBO_DTYPE_INT8 | UMBO_DTYPE_UINT8 => bytes.push(value as u8),
                    UMBO_DTYPE_INT16 | UMBO_DTYPE_UINT16 => {
                        bytes.extend((value as u16).to_ne_bytes())
                    }
                    UMBO_DTYPE_INT32 | UMBO_DTYPE_UINT32 => {
                        bytes.extend((value as u32).to_ne_bytes())
                    }
                    _ => bytes.extend((value as u64).to_ne_bytes()),
                },
            }
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let words = bytes.chunks_exact(8);
        words
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
            .collect()
    }

    /// The tensor whose elements lie in `memory`.
    pub fn from_memory(dtype: Dtype, shape: Vec<i64>, memory: &[u64]) -> Literal {
        let count = shape.iter().product::<i64>() as usize;
        let bytes: Vec<u8> = memory.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let elements = bytes.chunks_exact(dtype.size).take(count);
        Literal {
            dtype,
            shape,
            data: elements.map(|bytes| decode(dtype, bytes)).collect(),
        }
    }
}

fn decode(dtype: Dtype, bytes: &[u8]) -> Element {
    let word = match *bytes {
        [byte] => byte.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        _ => u64::from_ne_bytes(bytes.try_into().unwrap_or_default()),
    };
    match dtype.code {
        UMBO_DTYPE_FLOAT16 => Element::Float(f16::from_bits(word as u16).to_f64()),
        UMBO_DTYPE_BFLOAT16 => Element::Float(bf16::from_bits(word as u16).to_f64()),
        UMBO_DTYPE_FLOAT32 => Element::Float(f32::from_bits(word as u32).into()),
        UMBO_DTYPE_FLOAT64 => Element::Float(f64::from_bits(word)),
        UMBO_DTYPE_BOOL => Element::Bool(word != 0),
        _ => Element::Integer(dtype.wrap(word.into())),
    }
}

/// Reads an element; integers are read as integers, so that those past 2^53 stay what they are.
fn parse_element(dtype: Dtype, json: &Json) -> Result<Element> {
    let refused = || wrong(format!("{json} is not a {}", dtype.name));
    if dtype.code == UMBO_DTYPE_BOOL {
        return json
            .as_bool()
            .map_or_else(refused, |value| Ok(Element::Bool(value)));
    }
    if dtype.is_float() {
        let value = match json.as_str() {
            Some("NaN") => Some(f64::NAN),
            Some("Infinity") => Some(f64::INFINITY),
            Some("-Infinity") => Some(f64::NEG_INFINITY),
            Some(_) => None,
            None => json.as_f64(),
        };
        return value.map_or_else(refused, |value| Ok(Element::Float(dtype.round(value))));
    }
    let value = json
        .as_i64()
        .map(i128::from)
        .or_else(|| json.as_u64().map(i128::from));
    match value {
        Some(value) if dtype.wrap(value) == value => Ok(Element::Integer(value)),
        _ => refused(),
    }
}
