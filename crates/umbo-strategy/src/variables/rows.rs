//! Variables whose rows come and go. A variable keeps its shape as long as it lives; one with other
//! rows is another variable, made from it between two steps.

#![expect(unsafe_code, reason = "a variable that nobody else has yet is written")]

use super::creator::{NewVariable, make};
use crate::commit::exclusion::StepExclusion;
use umbo_base::error::{Result, memory};
use umbo_device::DeviceId;
use umbo_kernels::rows::copy_rows;
use umbo_tensor::values::variable::{Synchronization, Variable};
use umbo_tensor::{Shape, Tensor, TensorMut};

/// The rows of a variable that stay, in their new order.
#[derive(Clone, Copy, Debug)]
pub enum KeptRows<'a> {
    /// The first rows, this many.
    First(usize),
    /// These, each at most once.
    Numbered(&'a [i64]),
}

/// The rows that a variable has after a change.
pub struct RowChange {
    kept: Kept,
    appended: Option<Tensor>,
    shape: Shape,
}

enum Kept {
    First(usize),
    Numbered(Vec<u64>),
}

impl KeptRows<'_> {
    /// How many rows stay.
    pub fn count(&self) -> usize {
        match self {
            KeptRows::First(count) => *count,
            KeptRows::Numbered(rows) => rows.len(),
        }
    }

    /// The rows, checked against a variable that has `rows` of them.
    fn checked(&self, rows: usize) -> Result<Kept> {
        let numbers = match *self {
            KeptRows::First(count) if count > rows => {
                return Err(invalid!(
                    "kept_count",
                    "{count}; the variable has {rows} rows, of which the first are kept"
                ));
            }
            KeptRows::First(count) => return Ok(Kept::First(count)),
            KeptRows::Numbered(numbers) => numbers,
        };
        let mut is_kept = memory::filled(rows, false, "rows of a variable")?;
        let mut kept = memory::list(numbers.len().min(rows), "rows of a variable")?;
        for (position, &number) in numbers.iter().enumerate() {
            let name = || format!("kept_rows[{position}]");
            let row = usize::try_from(number).ok().filter(|&row| row < rows);
            let Some(row) = row else {
                return Err(out_of_range!(
                    name(),
                    "{number} is not in [0, {rows}), the rows"
                ));
            };
            if std::mem::replace(&mut is_kept[row], true) {
                return Err(invalid!(
                    name(),
                    "{number} a second time; a row is kept at most once"
                ));
            }
            kept.push(row as u64);
        }
        Ok(Kept::Numbered(kept))
    }
}

impl RowChange {
    /// The change of `variable` that keeps the rows `kept` and puts those of `appended`, of the
    /// variable's dtype and row shape, behind them.
    pub fn new(
        variable: &Variable,
        kept: KeptRows<'_>,
        appended: Option<&Tensor>,
    ) -> Result<RowChange> {
        let before = variable.shape();
        let Some((&rows, row)) = before.split_first() else {
            return Err(invalid!("variable", "{variable:?}; a scalar has no rows"));
        };
        let fits = |tensor: &Tensor| {
            let shape = tensor.shape();
            tensor.dtype() == variable.dtype() && !shape.is_empty() && shape[1..] == *row
        };
        if let Some(wrong) = appended.filter(|tensor| !fits(tensor)) {
            return Err(invalid!(
                "appended",
                "{} of shape {}; rows of {variable:?} have its dtype, and its shape behind the \
                 first dimension",
                wrong.dtype(),
                wrong.shape()
            ));
        }
        let added = appended.map_or(0, |tensor| tensor.shape()[0]);
        let kept = kept.checked(rows)?;
        let mut sizes = before.to_vec();
        sizes[0] = kept
            .len()
            .checked_add(added)
            .ok_or_else(|| invalid!("appended", "more rows than memory has"))?;
        Ok(RowChange {
            kept,
            appended: appended.filter(|_| added > 0).cloned(),
            shape: Shape::new(&sizes)?,
        })
    }

    /// The shape afterwards.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// How many rows stay: those that are appended begin here.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Copies the rows of `from` that stay to the first rows of `to`, which has as many rows as the
    /// variable afterwards. The others remain as they are.
    pub fn keep(&self, from: &Tensor, to: &mut TensorMut<'_>) -> Result<()> {
        let rows = match &self.kept {
            Kept::First(count) => {
                return to.copy_part_from(0, 0, &from.slice(0, 0, *count, 1)?);
            }
            Kept::Numbered(rows) => rows,
        };
        let source = from.on_host()?;
        if to.device().is_host_memory() {
            return copy_rows(&source.reading()?, rows, &mut to.writing()?);
        }
        let mut sizes = from.shape().to_vec();
        sizes[0] = rows.len();
        let kept = Tensor::uninitialized(from.dtype(), Shape::new(&sizes)?, DeviceId::HOST)?;
        // SAFETY: nobody else has the fresh tensor.
        let mut writing = unsafe { kept.assume_exclusive() };
        copy_rows(&source.reading()?, rows, &mut writing.writing()?)?;
        to.copy_part_from(0, 0, &kept)
    }
}

impl Kept {
    fn len(&self) -> usize {
        match self {
            Kept::First(count) => *count,
            Kept::Numbered(rows) => rows.len(),
        }
    }
}

impl StepExclusion<'_> {
    /// A variable like `variable`, which is of this strategy, with the rows that `change` says and
    /// their values. With several ranks all of them make it; what is appended is rank 0's.
    pub fn make_changed(&self, variable: &Variable, change: &RowChange) -> Result<Variable> {
        let owner = self.strategy();
        let name = variable.name().clone();
        let value = self
            .changed_value(variable, change)
            .map_err(|error| owner.fail_to_make(name.as_str(), error))?;
        let spec = variable.spec();
        let new = NewVariable {
            name,
            trainable: Some(spec.trainable),
            synchronization: Synchronization::Auto,
            aggregation: spec.aggregation,
        };
        make(owner, new, value)
    }

    fn changed_value(&self, variable: &Variable, change: &RowChange) -> Result<Tensor> {
        let strategy = self.strategy().inner();
        let fresh = strategy.variable_slab.lock().zeros(
            variable.dtype(),
            change.shape(),
            variable.device(),
        )?;
        // SAFETY: nobody else has the fresh tensor.
        let mut writing = unsafe { fresh.assume_exclusive() };
        let _unchanging = strategy.steps.central.read();
        // SAFETY: committed values do not change while `_unchanging` lives.
        change.keep(unsafe { variable.committed() }, &mut writing)?;
        if let Some(appended) = &change.appended {
            writing.copy_part_from(0, change.kept(), appended)?;
        }
        Ok(fresh)
    }
}
