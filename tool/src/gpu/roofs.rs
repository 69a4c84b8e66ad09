//! Measures the speed of a GPU's memory and its bus, and that of the fused update for comparison.

use std::fmt::Write;
use std::time::Instant;

use serde_json::{Value, json};
use umbo_core::device::{DeviceId, registry};
use umbo_core::error::Result;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, apply};
use umbo_core::strategy::variables::{self, Initial, NewVariable};
use umbo_core::strategy::{Options, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::variable::{Aggregation, Synchronization};

const ROUNDS: usize = 15;

/// The medians of the measurements.
pub struct Roofs {
    bytes: usize,
    /// The bytes per second that a copy within the GPU reads and writes.
    copy: f64,
    to_device: f64,
    from_device: f64,
    /// The bytes per second that AdamW with float32 gradients moves: 28 for each parameter.
    update: f64,
    /// The seconds of an apply to many small variables, which include the work of the host and of
    /// the GPU.
    small_apply: f64,
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// The median time of `work`, in seconds.
fn timed(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    work()?;
    let mut seconds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(median(seconds))
}

/// Measures `device` with blocks of `bytes` bytes.
pub fn measure(device: DeviceId, bytes: usize) -> Result<Roofs> {
    let gpu = registry::backend(device)?;
    let shape = Shape::new(&[bytes / 4])?;
    let host = Tensor::zeros(DType::Float32, shape, DeviceId::HOST)?;
    let from = Tensor::zeros(DType::Float32, shape, device)?;
    let mut to = Tensor::zeros(DType::Float32, shape, device)?;
    let copy = timed(|| {
        if let Some(mut target) = to.get_mut() {
            target.copy_from(&from)?;
        }
        gpu.synchronize()
    })?;
    let to_device = timed(|| {
        if let Some(mut target) = to.get_mut() {
            target.copy_from(&host)?;
        }
        gpu.synchronize()
    })?;
    let from_device = timed(|| from.on_host().map(drop))?;
    drop((from, to, host));
    let large = training(device, &[bytes / 4 / 4])?;
    let small = training(device, &[64; 100])?;
    let per_second = |amount: usize, seconds: f64| amount as f64 / seconds;
    Ok(Roofs {
        bytes,
        copy: per_second(2 * bytes, copy),
        to_device: per_second(bytes, to_device),
        from_device: per_second(bytes, from_device),
        update: per_second(bytes / 4 / 4 * 28, large),
        small_apply: small,
    })
}

/// The seconds of an AdamW update of variables with these numbers of elements.
fn training(device: DeviceId, elements: &[usize]) -> Result<f64> {
    let name = device.to_string();
    let strategy = Strategy::new(&Options {
        compute_devices: Some(vec![name.clone()]),
        parameter_device: Some(name),
        ..Options::default()
    })?;
    let variables = elements
        .iter()
        .map(|&elements| {
            let new = NewVariable {
                name: "v".into(),
                trainable: None,
                synchronization: Synchronization::Auto,
                aggregation: Aggregation::None,
            };
            let zeros = Tensor::zeros(DType::Float32, Shape::new(&[elements])?, DeviceId::HOST)?;
            variables::create(Some(&strategy), new, Initial::Value(&zeros))
        })
        .collect::<Result<Vec<_>>>()?;
    let count = variables.len();
    let devices = strategy.compute_devices();
    let gradients = Gradients::new(
        strategy.id(),
        devices,
        variables,
        LossReduction::Mean,
        Default::default(),
    )?;
    let rule = Box::new(Adam::adamw(0.9, 0.999, 1e-7, 0.01)?);
    let optimizer = Optimizer::new(strategy.id(), rule, 1e-3)?;
    let mut seconds = Vec::with_capacity(ROUNDS);
    for round in 0..=ROUNDS {
        strategy.run(
            &|context| {
                for index in 0..count {
                    gradients.view_in(context, index, GradientMode::Overwrite)?;
                }
                gradients.submit_in(context, Some(1.0))?;
                Ok(None)
            },
            None,
        )?;
        let start = Instant::now();
        apply(&optimizer, &gradients)?;
        // The first update makes the state.
        if round > 0 {
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    Ok(median(seconds))
}

impl Roofs {
    pub fn as_json(&self) -> Value {
        json!({
            "block_bytes": self.bytes,
            "copy_bytes_per_second": self.copy,
            "to_device_bytes_per_second": self.to_device,
            "from_device_bytes_per_second": self.from_device,
            "adamw_bytes_per_second": self.update,
            "adamw_of_copy": self.update / self.copy,
            "apply_to_100_small_variables_seconds": self.small_apply,
        })
    }

    pub fn as_text(&self) -> String {
        let mut text = String::new();
        let rows = [
            ("copy within the GPU", self.copy),
            ("to the GPU", self.to_device),
            ("from the GPU", self.from_device),
            ("AdamW, 28 bytes a parameter", self.update),
        ];
        for (name, rate) in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {name}: {:.1} GB/s", rate / 1e9);
        }
        let share = 100.0 * self.update / self.copy;
        let _ = writeln!(
            text,
            "  AdamW moves {share:.0} % of the bytes that the copy does"
        );
        let micros = 1e6 * self.small_apply;
        let _ = writeln!(text, "  an apply to 100 variables of 64: {micros:.0} us");
        text
    }
}
