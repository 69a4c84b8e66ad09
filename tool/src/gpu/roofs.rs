//! Measures the speed of a GPU's memory and its bus, and that of the fused update for comparison.

#![expect(unsafe_code, reason = "a replica reads the weights")]

use std::fmt::Write;
use std::time::Instant;

use serde_json::{Value, json};
use umbo_core::device::{DeviceId, registry};
use umbo_core::error::Result;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, apply};
use umbo_core::strategy::variables::{self, Initial, NewVariable, refreshed_copy};
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
    /// The same from and to memory of the host that is locked, as that of variables is.
    to_device_locked: f64,
    from_device_locked: f64,
    /// The bytes per second that a step moves over the bus, with AdamW of variables in host memory:
    /// 4 up and 4 down for each parameter.
    step_over_bus: f64,
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
    host.lock_pages_for(device)?;
    let to_device_locked = timed(|| {
        if let Some(mut target) = to.get_mut() {
            target.copy_from(&host)?;
        }
        gpu.synchronize()
    })?;
    let mut host = host;
    let from_device_locked = timed(|| match host.get_mut() {
        Some(mut target) => target.copy_from(&from),
        None => Ok(()),
    })?;
    drop((from, to, host));
    let large = training(device, device, &[bytes / 4 / 4])?.apply;
    let small = training(device, device, &[64; 100])?.apply;
    let over_bus = training(device, DeviceId::HOST, &[bytes / 4])?.step;
    let per_second = |amount: usize, seconds: f64| amount as f64 / seconds;
    Ok(Roofs {
        bytes,
        copy: per_second(2 * bytes, copy),
        to_device: per_second(bytes, to_device),
        from_device: per_second(bytes, from_device),
        to_device_locked: per_second(bytes, to_device_locked),
        from_device_locked: per_second(bytes, from_device_locked),
        step_over_bus: per_second(2 * bytes, over_bus),
        update: per_second(bytes / 4 / 4 * 28, large),
        small_apply: small,
    })
}

/// Median times, in seconds.
struct Trained {
    /// A whole step, in which the replica reads the weights.
    step: f64,
    /// The update in it.
    apply: f64,
}

/// The times of AdamW for variables with these numbers of elements.
fn training(device: DeviceId, parameter_device: DeviceId, elements: &[usize]) -> Result<Trained> {
    let strategy = Strategy::new(&Options {
        compute_devices: Some(vec![device.to_string()]),
        parameter_device: Some(parameter_device.to_string()),
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
    let read = variables.clone();
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
    let (mut steps, mut applies) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let begin = Instant::now();
        strategy.run(
            &|context| {
                for (index, variable) in read.iter().enumerate() {
                    // SAFETY: nobody assigns.
                    unsafe { refreshed_copy(Some(context), variable, variable.dtype())? };
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
            applies.push(start.elapsed().as_secs_f64());
            steps.push(begin.elapsed().as_secs_f64());
        }
    }
    Ok(Trained {
        step: median(steps),
        apply: median(applies),
    })
}

impl Roofs {
    /// How long the bus takes for a byte, in the mean of both directions.
    fn bus_seconds_per_byte(&self) -> f64 {
        (1.0 / self.to_device_locked + 1.0 / self.from_device_locked) / 2.0
    }

    pub fn as_json(&self) -> Value {
        json!({
            "block_bytes": self.bytes,
            "copy_bytes_per_second": self.copy,
            "to_device_bytes_per_second": self.to_device,
            "from_device_bytes_per_second": self.from_device,
            "locked_to_device_bytes_per_second": self.to_device_locked,
            "locked_from_device_bytes_per_second": self.from_device_locked,
            "step_over_bus_bytes_per_second": self.step_over_bus,
            "step_of_bus": self.step_over_bus * self.bus_seconds_per_byte(),
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
            ("to the GPU, from locked memory", self.to_device_locked),
            ("from the GPU, to locked memory", self.from_device_locked),
            (
                "a step with AdamW of variables in host memory, over the bus",
                self.step_over_bus,
            ),
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
        let share = 100.0 * self.step_over_bus * self.bus_seconds_per_byte();
        let _ = writeln!(
            text,
            "  that step is {share:.0} % copies over the bus, at their own rates"
        );
        let micros = 1e6 * self.small_apply;
        let _ = writeln!(text, "  an apply to 100 variables of 64: {micros:.0} us");
        text
    }
}
