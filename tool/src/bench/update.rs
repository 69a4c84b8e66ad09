//! `umbo bench update`: reduces the gradients of all replicas and updates the variables.

use std::time::Instant;

use serde_json::{Value, json};
use umbo_core::device::DeviceId;
use umbo_core::error::Result;
use umbo_core::optimizer::{AverageKind, Averaging, Optimizer, Settings, apply};
use umbo_core::strategy::{Options as StrategyOptions, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::buffer::COPY_DTYPES;

use super::memory::{Choices, Options, Row, Timed, by_name, whole};
use super::model::{Model, What};
use super::probe::move_bytes;
use super::reduce::filled;
use super::rules::{USUAL, names, rule_of, selves};
use super::{Asked, device};
use crate::arguments::{number, one_of, some_of};
use crate::failure::Failure;

pub const HELP: &str = "\
Usage: umbo bench update [OPTIONS]

Measures an optimizer's apply: the gradients of all replicas are reduced and the variables updated
in one pass. A probe reads the same gradients, reads and writes the same variable and as
much state, and writes the same low-precision copy, with the same threads. All numbers are medians.
With several variables the probe runs over one that is as large as all of them.

Options:
      --dtype LIST       types of elements, some of: float32, float64 (default: float32)
      --rule LIST        some of: sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, nadam,
                         radam, lion, lamb, lars, ftrl (default: sgd,momentum,adamw). lamb
                         and lars read everything twice, since they need norms of the whole
                         variable; the probe does not
      --variables N      how many variables share the bytes of a row (1 to 1000000; default: 1)
      --gradient TYPE    gradients of float32 variables have one of: float16, bfloat16
      --copy TYPE        float32 variables have copies, kept in step, in one of: float16, bfloat16
      --clip             clip by the norm of all gradients, which has to be known before the update.
                         The probe reads the gradients twice, or writes their sum and then reads
                         that: whichever moves fewer bytes
      --average          keep an exponential moving average of the weights. The probe reads and
                         writes as much more
";

const CHOICES: Choices = Choices {
    usual: &[DType::Float32],
    possible: &[DType::Float32, DType::Float64],
    devices: true,
    drawing: true,
};

/// The options of this benchmark, except those that all benchmarks of memory have.
struct Updates {
    rules: Vec<&'static str>,
    variables: usize,
    gradient: Option<DType>,
    copy: Option<DType>,
    clip: bool,
    average: bool,
}

pub fn read(arguments: &mut lexopt::Parser) -> std::result::Result<Asked, Failure> {
    let mut updates = Updates {
        rules: USUAL.to_vec(),
        variables: 1,
        gradient: None,
        copy: None,
        clip: false,
        average: false,
    };
    let halves = by_name(&COPY_DTYPES);
    let options = Options::read(arguments, &CHOICES, |name, arguments| {
        match name {
            "rule" => updates.rules = some_of(arguments, "rule", &selves(&names()))?,
            "variables" => updates.variables = number(arguments, "variables", 1..=1_000_000)?,
            "gradient" => updates.gradient = Some(one_of(arguments, "gradient", &halves)?),
            "copy" => updates.copy = Some(one_of(arguments, "copy", &halves)?),
            "clip" => updates.clip = true,
            "average" => updates.average = true,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let Some(options) = options else {
        return Ok(Asked::Help);
    };
    updates.check(&options)?;
    options.measuring("update", move |options| updates.measure(options))
}

impl Updates {
    /// Checks whether these options can be combined.
    fn check(&self, options: &Options) -> std::result::Result<(), Failure> {
        let Updates {
            variables,
            gradient,
            copy,
            ..
        } = self;
        if copy.is_some() && !options.device.is_host_memory() {
            // The copies would be converted at their next use, and not in the pass.
            return Err(Failure::wrong(
                "--copy is for variables in host memory; leave it out with a GPU",
            ));
        }
        if (copy.is_some() || gradient.is_some()) && options.dtypes != [DType::Float32] {
            return Err(Failure::wrong(
                "--gradient and --copy are for float32 variables; leave --dtype out",
            ));
        }
        let largest = options
            .dtypes
            .iter()
            .map(|dtype| dtype.size())
            .max()
            .unwrap_or(1);
        if options.from / largest < *variables {
            return Err(Failure::wrong(format!(
                "--variables: {variables} do not fit in {} bytes; give a larger --from",
                options.from
            )));
        }
        Ok(())
    }

    fn measure(&self, options: &Options) -> Result<Vec<Row>> {
        let &Updates {
            ref rules,
            variables,
            gradient,
            copy,
            clip,
            average,
        } = self;
        let mut rows = Vec::new();
        for &dtype in &options.dtypes {
            for rule in rules {
                for &replicas in &options.replicas {
                    for bytes in options.sizes() {
                        let benchmark = What {
                            dtype,
                            gradient,
                            copy,
                            clip,
                            average,
                            rule,
                            replicas,
                            bytes,
                            variables,
                        };
                        rows.push(row(options.rounds, options.device, &benchmark)?);
                    }
                }
            }
        }
        Ok(rows)
    }
}

fn row(rounds: usize, device: DeviceId, benchmark: &What<'_>) -> Result<Row> {
    let options = StrategyOptions {
        cpu_replicas: benchmark.replicas,
        parameter_device: Some(device.to_string()),
        ..StrategyOptions::default()
    };
    let strategy = Strategy::new(&options)?;
    let mut model = Model::new(&strategy, benchmark, benchmark.variables)?;
    let optimizer = Optimizer::new(strategy.id(), rule_of(benchmark.rule), 1e-3)?;
    let average = Averaging {
        kind: AverageKind::Exponential {
            decay: 0.999,
            warmup: false,
        },
        start: 0,
        interval: 1,
    };
    optimizer.configure(Settings {
        // The limit is below every norm here, so that gradients are clipped.
        global_clip_norm: benchmark.clip.then_some(1e-6),
        averaging: benchmark.average.then_some(average),
        ..Settings::default()
    })?;
    let slots = optimizer.slots().len();

    let whole_model = match benchmark.variables {
        1 => None,
        _ => Some(Model::new(&strategy, benchmark, 1)?),
    };
    let probed = ProbedMemory::new(benchmark, whole_model.as_ref().unwrap_or(&model), slots)?;
    if let Some(dtype) = benchmark.copy {
        model.make_copies(dtype)?;
    }
    model.commit()?;
    apply(&optimizer, &model.gradients)?;

    let traffic = benchmark.traffic(slots);
    let ours: Timed<'_> = Box::new(move || {
        model.contribute()?;
        model.commit()?;
        let start = Instant::now();
        apply(&optimizer, &model.gradients)?;
        Ok(start.elapsed())
    });
    let probes = match device.is_host_memory() {
        true => probed.probes(benchmark),
        false => vec![device::copy_within(device, traffic)?],
    };
    Row::measure_on(device, benchmark.labels(), traffic, rounds, ours, probes)
}

impl What<'_> {
    fn labels(&self) -> Vec<(&'static str, Value)> {
        let name_of = |dtype: Option<DType>| json!(dtype.map_or("none", DType::name));
        vec![
            ("bytes", json!(self.bytes)),
            ("dtype", json!(self.dtype.name())),
            ("gradient", name_of(self.gradient.or(Some(self.dtype)))),
            ("copy", name_of(self.copy)),
            ("clip", json!(self.clip)),
            ("average", json!(self.average)),
            ("rule", json!(self.rule)),
            ("variables", json!(self.variables)),
            ("replicas", json!(self.replicas)),
        ]
    }

    /// The bytes of all replicas' gradients of one element.
    fn gradient_bytes(&self) -> usize {
        self.gradient.unwrap_or(self.dtype).size() * self.replicas
    }

    /// Whether the sum of the gradients is written for the norm, and read for the update: with
    /// clipping, if that moves fewer bytes than reading the gradients twice.
    fn sums_are_written(&self) -> bool {
        self.clip && self.gradient_bytes() > 2 * self.dtype.size()
    }

    /// The bytes that an update moves with a rule of so many slots.
    fn traffic(&self, slots: usize) -> usize {
        let norm = match (self.clip, self.sums_are_written()) {
            (false, _) => 0,
            (true, false) => self.gradient_bytes(),
            (true, true) => 2 * self.dtype.size(),
        };
        let state = 2 * (1 + slots) * self.dtype.size();
        let written = self.copy.map_or(0, DType::size);
        self.bytes / self.dtype.size() * (norm + self.gradient_bytes() + state + written)
    }
}

/// The memory that the probe reads and writes: of one variable, as large as all variables.
struct ProbedMemory {
    reads: Vec<Tensor>,
    in_place: Vec<Tensor>,
    copy: Option<Tensor>,
    sum: Option<Vec<Tensor>>,
}

impl ProbedMemory {
    fn new(benchmark: &What<'_>, model: &Model, slots: usize) -> Result<ProbedMemory> {
        let reads = (0..benchmark.replicas)
            .map(|replica| model.buffer(replica, 0).cloned())
            .collect::<Result<_>>()?;
        // SAFETY: the strategy takes no step while the probe, on this thread, writes the weights.
        let weights = unsafe { model.gradients.variables()[0].committed() };
        let mut in_place = vec![weights.clone()];
        let shape = in_place[0].shape();
        for slot in 0..slots {
            in_place.push(state_like(benchmark.dtype, shape, slot)?);
        }
        let copy = benchmark
            .copy
            .map(|dtype| Tensor::zeros(dtype, shape, in_place[0].device()))
            .transpose()?;
        let sum = benchmark
            .sums_are_written()
            .then(|| filled(benchmark.dtype, shape).map(|sum| vec![sum]))
            .transpose()?;
        Ok(ProbedMemory {
            reads,
            in_place,
            copy,
            sum,
        })
    }

    /// The probes: with usual and with streaming stores, of the tensors that are only written.
    fn probes(&self, benchmark: &What<'_>) -> Vec<Timed<'_>> {
        let ways = |is_written: bool| match is_written {
            true => &[false, true][..],
            false => &[false],
        };
        let clip = benchmark.clip;
        let probe = |stream_sum, stream_copy| {
            whole(move || {
                let sum = self.sum.as_ref();
                if clip {
                    move_bytes(&self.reads, sum.map(|sum| &sum[0]), &[], stream_sum)?;
                }
                let reads = sum.unwrap_or(&self.reads);
                move_bytes(reads, self.copy.as_ref(), &self.in_place, stream_copy)
            })
        };
        let mut probes = Vec::new();
        for &stream_sum in ways(self.sum.is_some()) {
            for &stream_copy in ways(self.copy.is_some()) {
                probes.push(probe(stream_sum, stream_copy));
            }
        }
        probes
    }
}

/// A tensor of ones whose address differs from that of its siblings modulo the sizes of caches,
/// like the address of an optimizer's state.
pub(super) fn state_like(dtype: DType, shape: Shape, slot: usize) -> Result<Tensor> {
    let skipped = (slot + 1) * 61 * 1024 / dtype.size();
    let elements = shape.elements();
    let whole = filled(dtype, Shape::new(&[elements + skipped])?)?;
    whole
        .slice(0, skipped, skipped + elements, 1)?
        .reshape(shape)
}
