//! `umbo bench gather`: concatenates the replicas' tensors into one that is reused.

use serde_json::json;
use umbo_core::collectives::gather;
use umbo_core::device::DeviceId;
use umbo_core::error::Result;
use umbo_core::tensor::{DType, Shape, Tensor};

use super::Asked;
use super::copies;
use super::memory::{Choices, Options, Row, whole};
use super::reduce::varied;
use crate::arguments::{Bytes, number, some_of};
use crate::failure::Failure;

pub const HELP: &str = "\
Usage: umbo bench gather [OPTIONS]

Measures the concatenation of one tensor per replica into a tensor that is used again: along axis 0,
and along axis 1 of tensors with rows of a given length. Probes copy the same tensors one
after the other into as much memory: with the same threads and with one, with memcpy and past the
caches; the fastest of them is the roof. All numbers are medians.

Options:
      --dtype LIST       types of elements, some of: float16, bfloat16, float32, float64, int8,
                         int16, int32, int64, uint8, uint16, uint32, uint64, bool (default: float32)
      --axis LIST        some of: 0, 1 (default: both)
      --row SIZE         bytes of a row for axis 1 (1 to 1G; default: 256)
";

const CHOICES: Choices = Choices {
    usual: &[DType::Float32],
    possible: &DType::ALL,
    devices: false,
    drawing: true,
};

const AXES: [(&str, usize); 2] = [("0", 0), ("1", 1)];

pub fn read(arguments: &mut lexopt::Parser) -> std::result::Result<Asked, Failure> {
    let mut axes = vec![0, 1];
    let mut row = Bytes(256);
    let options = Options::read(arguments, &CHOICES, |name, arguments| {
        match name {
            "axis" => axes = some_of(arguments, "axis", &AXES)?,
            "row" => row = number(arguments, "row", Bytes(1)..=Bytes(1 << 30))?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match options {
        Some(options) => options.measuring("gather", move |options| measure(options, &axes, row.0)),
        None => Ok(Asked::Help),
    }
}

fn measure(options: &Options, axes: &[usize], row_bytes: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &dtype in &options.dtypes {
        for &axis in axes {
            for &replicas in &options.replicas {
                for bytes in options.sizes() {
                    rows.push(row(
                        options.rounds,
                        dtype,
                        axis,
                        replicas,
                        bytes,
                        row_bytes,
                    )?);
                }
            }
        }
    }
    Ok(rows)
}

fn row(
    rounds: usize,
    dtype: DType,
    axis: usize,
    replicas: usize,
    bytes: usize,
    row_bytes: usize,
) -> Result<Row> {
    let columns = (row_bytes / dtype.size()).max(1);
    let shape = Shape::new(&[(bytes / dtype.size() / columns).max(1), columns])?;
    let components: Vec<Tensor> = (0..replicas)
        .map(|replica| varied(dtype, shape, replica))
        .collect::<Result<_>>()?;
    let output = gather(&components, axis as i64, DeviceId::HOST, None)?;
    let ours = whole(|| {
        gather(&components, axis as i64, DeviceId::HOST, {
            // SAFETY: nobody else has the output while it is measured.
            Some(unsafe { output.assume_exclusive() })
        })
        .map(drop)
    });
    let traffic = 2 * replicas * shape.bytes(dtype)?;
    let labels = vec![
        ("bytes", json!(bytes)),
        ("dtype", json!(dtype.name())),
        ("axis", json!(axis)),
        ("row", json!(columns * dtype.size())),
        ("replicas", json!(replicas)),
    ];
    Row::measure(
        labels,
        traffic,
        rounds,
        ours,
        copies::all(&components, &output),
    )
}
