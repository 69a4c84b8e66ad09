//! `umbo bench rows`: merges the rows of all replicas and updates them in their table.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use umbo_core::error::{Error, Result};
use umbo_core::optimizer::{Gradients, GradientsOptions, LossReduction, Optimizer, apply};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::strategy::variables::{Initial, NewVariable, create};
use umbo_core::strategy::{Options as StrategyOptions, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::variable::{Aggregation, Synchronization};

use super::Asked;
use super::memory::{Choices, Options, Row, Timed, whole};
use super::probe::move_bytes;
use super::reduce::filled;
use super::rules::{USUAL, names, rule_of, selves};
use super::update::state_like;
use crate::arguments::{number, some_of};
use crate::failure::Failure;

pub const HELP: &str = "\
Usage: umbo bench rows [OPTIONS]

Measures an optimizer's apply to a table of which replicas contribute some rows: each names the same
rows, in an order that looks random; they are merged and updated. A probe reads as many
bytes of gradients, and reads and writes as many bytes of weights and state, all in one piece, with
the same threads. The time does not depend on the size of the table, except through caches. Of all
numbers medians are shown; --from and --to are the bytes of the rows of one replica.

Options:
      --dtype LIST       types of elements, some of: float32, float64 (default: float32)
      --rule LIST        some of: sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, nadam,
                         radam, lion, ftrl (default: sgd,momentum,adamw)
      --width N          elements of a row (1 to 1048576; default: 64)
      --share N          the table has N times the rows that are named (1 to 1048576; default: 16)
";

const CHOICES: Choices = Choices {
    usual: &[DType::Float32],
    possible: &[DType::Float32, DType::Float64],
    devices: false,
    drawing: true,
};

pub fn read(arguments: &mut lexopt::Parser) -> std::result::Result<Asked, Failure> {
    let mut rules = USUAL.to_vec();
    let mut width = 64;
    let mut share = 16;
    // A rule that needs norms of whole variables cannot update single rows.
    let mut possible = selves(&names());
    possible.retain(|(name, _)| !rule_of(name).measures());
    let options = Options::read(arguments, &CHOICES, |name, arguments| {
        match name {
            "rule" => rules = some_of(arguments, "rule", &possible)?,
            "width" => width = number(arguments, "width", 1..=1 << 20)?,
            "share" => share = number(arguments, "share", 1..=1 << 20)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let Some(options) = options else {
        return Ok(Asked::Help);
    };
    options.measuring("rows", move |options| {
        measure(options, &rules, width, share)
    })
}

fn measure(options: &Options, rules: &[&str], width: usize, share: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &dtype in &options.dtypes {
        for rule in rules {
            for &replicas in &options.replicas {
                for bytes in options.sizes() {
                    let named = (bytes / dtype.size() / width).max(1);
                    let table = Table {
                        dtype,
                        named,
                        width,
                        rows: named.saturating_mul(share),
                    };
                    rows.push(row(options.rounds, &table, rule, replicas)?);
                }
            }
        }
    }
    Ok(rows)
}

struct Table {
    dtype: DType,
    /// The number of rows that each replica names in a step.
    named: usize,
    width: usize,
    rows: usize,
}

impl Table {
    /// The rows that a replica names. They are the same for all replicas, but each replica has its
    /// own order.
    fn indices(&self, replica: usize) -> Vec<i64> {
        let distance = distance(self.rows);
        let row = |position: usize| {
            let turned = (position + replica * self.named / 8) % self.named;
            (turned as u128 * distance as u128 % self.rows as u128) as i64
        };
        (0..self.named).map(row).collect()
    }

    /// A tensor with as many bytes as the rows of one replica.
    fn piece(&self) -> Result<Tensor> {
        filled(self.dtype, Shape::new(&[self.named * self.width])?)
    }
}

/// A step length through `rows` rows that reaches each of them once, and jumps between distant
/// rows.
fn distance(rows: usize) -> usize {
    fn divisor(a: usize, b: usize) -> usize {
        if b == 0 { a } else { divisor(b, a % b) }
    }
    let golden = (rows as f64 * 0.618_033_988_749_895) as usize;
    (golden.max(1)..)
        .find(|&step| divisor(step, rows) == 1)
        .unwrap_or(1)
}

/// The gradients of a table. The replicas have written its rows once.
struct Model<'a> {
    table: &'a Table,
    gradients: Arc<Gradients>,
    replicas: usize,
    step: u64,
}

impl Model<'_> {
    /// Contributes like the replicas of a step. Unless `written`, the buffers keep their contents.
    fn contribute(&mut self, written: bool) -> Result<()> {
        self.step += 1;
        self.gradients.try_begin_step(self.step);
        for replica in 0..self.replicas {
            let added = self
                .gradients
                .add_rows(replica, self.step, 0, self.table.named)?;
            if !written {
                let indices = self.table.indices(replica);
                let shape = added.indices.shape();
                let indices = Tensor::from_slice(&indices, shape, added.indices.device())?;
                let values = self.table.piece()?.reshape(added.values.shape())?;
                // SAFETY: the rows belong to this replica until it submits.
                unsafe {
                    added.indices.assume_exclusive().copy_from(&indices)?;
                    added.values.assume_exclusive().copy_from(&values)?;
                }
            }
        }
        for replica in 0..self.replicas {
            self.gradients.submit(replica, self.step, 3.0)?;
        }
        self.gradients.commit(self.step);
        Ok(())
    }
}

/// Gradients of a table of `strategy`, whose rows are named.
fn gradients_of(strategy: &Strategy, table: &Table, replicas: usize) -> Result<Arc<Gradients>> {
    let new = NewVariable {
        name: "table".into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation: Aggregation::None,
    };
    let whole_table = table.rows.checked_mul(table.width).ok_or_else(|| {
        Error::invalid(
            "share",
            "a table larger than memory can address; use a smaller one",
        )
    })?;
    let initial = filled(table.dtype, Shape::new(&[whole_table])?)?;
    let initial = initial.reshape(Shape::new(&[table.rows, table.width])?)?;
    let variable = create(Some(strategy), new, Initial::Value(&initial))?;
    drop(initial);
    let devices = vec![strategy.parameter_device(); replicas];
    let choice = GradientsOptions {
        row_sparse: &[true],
        ..GradientsOptions::default()
    };
    Gradients::new(
        strategy.id(),
        &devices,
        vec![variable],
        LossReduction::Sum,
        choice,
    )
}

fn row(rounds: usize, table: &Table, rule: &str, replicas: usize) -> Result<Row> {
    let options = StrategyOptions {
        cpu_replicas: replicas,
        ..StrategyOptions::default()
    };
    let strategy = Strategy::new(&options)?;
    let gradients = gradients_of(&strategy, table, replicas)?;
    let mut model = Model {
        table,
        gradients,
        replicas,
        step: 0,
    };
    let optimizer = Optimizer::new(strategy.id(), rule_of(rule), 1e-3)?;
    let slots = optimizer.slots().len();
    model.contribute(false)?;
    apply(&optimizer, &model.gradients)?;

    let reads: Vec<Tensor> = (0..replicas)
        .map(|_| table.piece())
        .collect::<Result<_>>()?;
    let mut in_place = vec![table.piece()?];
    for slot in 0..slots {
        in_place.push(state_like(table.dtype, in_place[0].shape(), slot)?);
    }
    let bytes = table.named * table.width * table.dtype.size();
    let labels = vec![
        ("bytes", json!(bytes)),
        ("dtype", json!(table.dtype.name())),
        ("rule", json!(rule)),
        ("width", json!(table.width)),
        ("rows", json!(table.rows)),
        ("replicas", json!(replicas)),
    ];
    let traffic = bytes * (replicas + 2 * (1 + slots));
    let ours: Timed<'_> = Box::new(move || {
        model.contribute(true)?;
        let start = Instant::now();
        apply(&optimizer, &model.gradients)?;
        Ok(start.elapsed())
    });
    let probe = whole(|| move_bytes(&reads, None, &in_place, false));
    Row::measure(labels, traffic, rounds, ours, vec![probe])
}
