//! `umbo bench gather`: concatenation of the replicas' tensors into one that is used again.

use lexopt::ValueExt;
use serde_json::json;
use umbo::collectives::gather;
use umbo::device::DeviceId;
use umbo::error::Result;
use umbo::tensor::{DType, Shape, Tensor};

use super::copies;
use super::memory::{OPTIONS_HELP, Options, Row, list, whole};
use super::reduce::varied;
use crate::Report;

pub const HELP: &str = "\
Usage: umbo bench gather [OPTIONS]

Measures the concatenation of one tensor per replica into a tensor that is used again: along axis 0,
and along axis 1 of tensors with rows of a given length. Beside it probes copy the same tensors one
after the other into as much memory: with the same threads and with one, with memcpy and past the
caches; the fastest of them is the roof. Of all numbers medians are shown.

Options:
      --dtype LIST       element types (default: float32)
      --axis LIST        0, 1 (default: both)
      --row SIZE         bytes of a row for axis 1 (default: 256)
";

pub fn run(mut arguments: lexopt::Parser) -> std::result::Result<Report, lexopt::Error> {
    let mut axes = vec![0usize, 1];
    let mut row_bytes = 256usize;
    let options = Options::parse(&mut arguments, &[DType::Float32], |name, arguments| {
        match name {
            "axis" => {
                let both = [("0", 0), ("1", 1)].into_iter();
                axes = arguments.value()?.parse_with(|text| list(text, both.clone()))?;
            }
            "row" => row_bytes = arguments.value()?.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let Some(options) = options else {
        return Ok(Report::fine(format!("{HELP}{OPTIONS_HELP}")));
    };
    let rows = measure(&options, &axes, row_bytes).map_err(|error| error.to_string())?;
    options.report("gather", &rows)
}

fn measure(options: &Options, axes: &[usize], row_bytes: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &dtype in &options.dtypes {
        for &axis in axes {
            for &replicas in &options.replicas {
                for bytes in options.sizes() {
                    rows.push(row(options.rounds, dtype, axis, replicas, bytes, row_bytes)?);
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
    let components: Vec<Tensor> =
        (0..replicas).map(|replica| varied(dtype, shape, replica)).collect::<Result<_>>()?;
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
    Row::measure(labels, traffic, rounds, ours, copies::all(&components, &output))
}
