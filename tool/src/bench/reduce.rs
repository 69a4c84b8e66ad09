//! `umbo bench reduce`: reductions over replicas into a tensor that is reused.

use serde_json::json;
use umbo_core::collectives::{ReduceOp, reduce};
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result};
use umbo_core::kernels::reduce::over_replicas::result_dtype;
use umbo_core::tensor::{DType, Shape, Tensor};

use super::memory::{Choices, Options, Row, whole};
use super::probe::move_bytes;
use super::{Asked, device};
use crate::arguments::some_of;
use crate::failure::Failure;

pub const HELP: &str = "\
Usage: umbo bench reduce [OPTIONS]

Measures the reduction of one tensor per replica into a tensor that is used again, and a probe
that reads and writes the same memory with the same threads, once through the caches and once past
them; the faster of the two is the roof. All numbers are medians.

Options:
      --dtype LIST       types of elements, some of: float16, bfloat16, float32, float64, int8,
                         int16, int32, int64, uint8, uint16, uint32, uint64
                         (default: float32,float64,bfloat16,float16,int32)
      --op LIST          some of: sum, mean, min, max (default: sum,mean)
      --fresh            allocate a result in each call, instead of one for all
";

const CHOICES: Choices = Choices {
    usual: &[
        DType::Float32,
        DType::Float64,
        DType::BFloat16,
        DType::Float16,
        DType::Int32,
    ],
    possible: DType::NUMERIC,
    devices: true,
    drawing: true,
};

const OPS: [(&str, ReduceOp); 4] = [
    ("sum", ReduceOp::Sum),
    ("mean", ReduceOp::Mean),
    ("min", ReduceOp::Min),
    ("max", ReduceOp::Max),
];

pub fn read(arguments: &mut lexopt::Parser) -> std::result::Result<Asked, Failure> {
    let mut ops = vec![ReduceOp::Sum, ReduceOp::Mean];
    let mut fresh = false;
    let options = Options::read(arguments, &CHOICES, |name, arguments| {
        match name {
            "op" => ops = some_of(arguments, "op", &OPS)?,
            "fresh" => fresh = true,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match options {
        Some(options) => options.measuring("reduce", move |options| measure(options, &ops, fresh)),
        None => Ok(Asked::Help),
    }
}

fn measure(options: &Options, ops: &[ReduceOp], fresh: bool) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &dtype in &options.dtypes {
        for &op in ops {
            for &replicas in &options.replicas {
                for bytes in options.sizes() {
                    let benchmark = What {
                        dtype,
                        op,
                        replicas,
                        bytes,
                        fresh,
                        device: options.device,
                    };
                    rows.push(row(options.rounds, &benchmark)?);
                }
            }
        }
    }
    Ok(rows)
}

/// The configuration of one row.
struct What {
    dtype: DType,
    op: ReduceOp,
    replicas: usize,
    bytes: usize,
    fresh: bool,
    device: DeviceId,
}

fn row(rounds: usize, benchmark: &What) -> Result<Row> {
    let &What {
        dtype,
        op,
        replicas,
        bytes,
        fresh,
        device,
    } = benchmark;
    let shape = Shape::new(&[bytes / dtype.size()])?;
    let result = result_dtype(op, dtype)?;
    let components: Vec<Tensor> = (0..replicas)
        .map(|replica| device::on(device, varied(dtype, shape, replica)?))
        .collect::<Result<_>>()?;
    let output = Tensor::zeros(result, shape, device)?;
    let written = shape.bytes(result)?;
    let ours = whole(|| {
        // SAFETY: nobody else has the output while it is measured.
        let output = (!fresh).then(|| unsafe { output.assume_exclusive() });
        reduce(op, &components, None, device, output).map(drop)?;
        device::wait(device)
    });
    let probe = |streaming| {
        let components = &components;
        let output = &output;
        whole(move || move_bytes(components, Some(output), &[], streaming))
    };
    let labels = vec![
        ("bytes", json!(bytes)),
        ("dtype", json!(dtype.name())),
        ("op", json!(op.name())),
        ("replicas", json!(replicas)),
    ];
    let traffic = replicas * bytes + written;
    let probes = match device.is_host_memory() {
        true => vec![probe(false), probe(true)],
        false => vec![device::copy_within(device, traffic)?],
    };
    Row::measure_on(device, labels, traffic, rounds, ours, probes)
}

/// A tensor with equal elements: 1.0 for floats, 3 in each byte of integers.
pub fn filled(dtype: DType, shape: Shape) -> Result<Tensor> {
    let pattern: &[u8] = match dtype {
        DType::Float16 => &[0x00, 0x3c],
        DType::BFloat16 => &[0x80, 0x3f],
        DType::Float32 => &[0x00, 0x00, 0x80, 0x3f],
        DType::Float64 => &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
        _ => &[3],
    };
    from_iter(dtype, shape, pattern.iter().copied().cycle())
}

/// A tensor whose elements differ between positions and replicas. Floats are between 0.5 and 2. If
/// all elements were equal, a probe, which computes an exclusive or, might write only zeros, and on
/// some processors it costs less to write lines of zeros than other lines.
pub fn varied(dtype: DType, shape: Shape, replica: usize) -> Result<Tensor> {
    let mut state = replica as u64;
    let mut random = move || {
        // This is SplitMix64's sequence, with the first of its multiplications.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (state ^ state >> 30)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .to_le_bytes()
    };
    let bytes = std::iter::repeat_with(move || {
        let mut bytes = random();
        // The sign and all bits of the exponent except the last, at the place of each element's
        // last bytes.
        let fixed: &[(u8, u8)] = match dtype {
            DType::Float16 => &[(0xff, 0), (0x03, 0x3c)],
            DType::BFloat16 => &[(0xff, 0), (0, 0x3f)],
            DType::Float32 => &[(0xff, 0), (0xff, 0), (0xff, 0), (0, 0x3f)],
            DType::Float64 => &[
                (0xff, 0),
                (0xff, 0),
                (0xff, 0),
                (0xff, 0),
                (0xff, 0),
                (0xff, 0),
                (0x0f, 0xf0),
                (0, 0x3f),
            ],
            _ => &[(0xff, 0)],
        };
        for (byte, (kept, set)) in bytes.iter_mut().zip(fixed.iter().cycle()) {
            *byte = *byte & kept | set;
        }
        bytes
    });
    from_iter(dtype, shape, bytes.flatten())
}

fn from_iter(dtype: DType, shape: Shape, elements: impl Iterator<Item = u8>) -> Result<Tensor> {
    let bytes = shape.bytes(dtype)?;
    let mut data = Vec::new();
    data.try_reserve_exact(bytes)
        .map_err(|_| Error::no_bytes(bytes, "to fill a tensor with"))?;
    data.extend(elements.take(bytes));
    Tensor::from_bytes(dtype, shape, &data, DeviceId::HOST)
}
