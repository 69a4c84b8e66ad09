//! Rows that come and go: a variable with other rows takes the place of one, with all state that an
//! optimizer keeps for it.

#![expect(unsafe_code, reason = "slots that nobody else has yet are written")]

use std::ops::Range;
use std::sync::Arc;

use crate::exchange::slots;
use crate::gradients::Gradients;
use crate::state::Optimizer;
use crate::state::coded::encode;
use crate::state::memory::OptimizerMemory;
use crate::state::slot_list::SlotList;
use crate::state::stored_state::{FreshSlots, LocalSlot, own_part, part_of};
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_strategy::Strategy;
use umbo_strategy::ranks::{AddQuantity, Call, CollectiveKind};
pub use umbo_strategy::variables::rows::{KeptRows, RowChange};
use umbo_tensor::Tensor;
use umbo_tensor::values::variable::Variable;

/// The state that is kept for a variable before its rows change.
struct StateBefore {
    position: usize,
    /// The whole slots; none if they have their initial values.
    slots: Vec<Tensor>,
    /// Each rank keeps a part of them.
    is_divided: bool,
}

impl Optimizer {
    /// Makes a variable that has the rows `kept` of `variable`, in this order, and behind them
    /// those of `appended`, and puts it in the place of `variable`: it has that one's state, of
    /// which each row moves with its row. The state of appended rows is what it is before an
    /// update, and their average is the row itself. The group and the number of updates are those
    /// of the variable. From now on optimizers refuse `variable`.
    ///
    /// If it fails, all is as before. FAILED_PRECONDITION inside of a step, while gradients of the
    /// variable that this optimizer has applied before wait for an update, and for a variable that
    /// was replaced before. With several ranks all of them make this call, with the same rows.
    pub fn change_rows(
        &self,
        variable: &Variable,
        kept: KeptRows<'_>,
        appended: Option<&Tensor>,
    ) -> Result<Variable> {
        self.check_variable(variable)?;
        let strategy = Strategy::with_id(self.strategy()).ok_or_else(|| {
            Error::precondition("optimizer: its strategy was released; keep that until then")
        })?;
        // Dropped when the step lock is released: that may run the program's code.
        let applied;
        let quiet = strategy.lock_between_steps()?;
        applied = self.applied();
        let change = self
            .check_change(variable, &applied)
            .and_then(|()| RowChange::new(variable, kept, appended));
        let added = appended.map(|tensor| tensor.shape());
        let (change, is_divided) =
            self.agreed(&strategy, variable, kept, added.as_deref(), change)?;
        let before = self.before_change(&strategy, variable, is_divided)?;
        let changed = quiet.make_changed(variable, &change)?;
        let fresh = before.as_ref().map(|before| {
            let fresh = self.fresh_slots(&changed, before)?;
            self.fill_fresh(&changed, before, &change, &fresh)?;
            Ok((before.position, fresh))
        });
        let fresh = agreed_memory(&strategy, variable, fresh.transpose())?;
        self.lock().put_in_place(variable, &changed, fresh);
        variable.mark_replaced();
        Ok(changed)
    }

    fn check_change(&self, variable: &Variable, applied: &[Arc<Gradients>]) -> Result<()> {
        variable.check_not_replaced()?;
        if variable.stays() {
            return Err(Error::precondition(format!(
                "{variable:?}: it lies in memory of the program's, which has its present rows; \
                 only a variable in memory of the library's can have others"
            )));
        }
        self.check_weights(self.lock().shows_average, "change rows")?;
        let has_it = |gradients: &&Arc<Gradients>| {
            gradients
                .variables()
                .iter()
                .any(|other| other.is_same(variable))
        };
        for gradients in applied.iter().filter(has_it) {
            if let Some(held) = gradients.unapplied()? {
                return Err(Error::precondition(format!(
                    "{variable:?}: its gradients hold {held}, which have its present rows; change \
                     rows after the update that takes them"
                )));
            }
        }
        Ok(())
    }

    /// The change, once all ranks want the same, and whether each keeps a part of the state.
    fn agreed(
        &self,
        strategy: &Strategy,
        variable: &Variable,
        kept: KeptRows<'_>,
        appended: Option<&[usize]>,
        change: Result<RowChange>,
    ) -> Result<(RowChange, bool)> {
        let (updates, is_part) = self.lock().extent_of(variable);
        if strategy.ranks().is_alone() {
            return Ok((change?, is_part));
        }
        let purpose = format_args!("the change of rows of {variable:?}");
        let quantities = |add: &mut AddQuantity<'_>| {
            add(&"the name of the variable", variable.name().as_str().into());
            add(&"its shape", variable.shape()[..].into());
            add(&"the number of its updates", updates.into());
            add(&"the shape of appended", appended.into());
            add(&"kept_count", kept.count().into());
            if let KeptRows::Numbered(rows) = kept {
                for (at, &row) in rows.iter().enumerate() {
                    add(&format_args!("kept_rows[{at}]"), (row as u64).into());
                }
            }
        };
        let call = Call {
            numbers: [u64::from(is_part), 0],
            ..Call::to(CollectiveKind::State, &purpose).agreeing(&quantities)
        };
        let (collective, change) = strategy.ranks().start_collective(call, change)?;
        let is_divided = collective.numbers().any(|[is_part, _]| is_part != 0);
        Ok((change, is_divided))
    }

    /// The whole state of `variable`, if there is any. With several ranks a collective call.
    fn before_change(
        &self,
        strategy: &Strategy,
        variable: &Variable,
        is_divided: bool,
    ) -> Result<Option<StateBefore>> {
        let (position, kept) = {
            let state = self.lock();
            let Some(position) = state.variables.position(variable) else {
                return Ok(None);
            };
            let of_variable = state.variables.state(position);
            let kept = |index| {
                (
                    state.variables.list()[index].name.to_string(),
                    of_variable.kept(index, state.variables.list()),
                )
            };
            let count = match state.variables.updates[position] {
                0 => 0,
                _ => state.variables.list().len(),
            };
            (position, (0..count).map(kept).collect::<Vec<_>>())
        };
        let whole = |(name, kept): (String, LocalSlot)| match is_divided {
            true => slots::whole(strategy.ranks(), &name, &kept.in_full()?),
            false => Ok(kept.in_full()?.tensor),
        };
        let slots = kept.into_iter().map(whole).collect::<Result<_>>()?;
        Ok(Some(StateBefore {
            position,
            slots,
            is_divided,
        }))
    }

    fn fresh_slots(&self, changed: &Variable, before: &StateBefore) -> Result<FreshSlots> {
        let state = &mut *self.lock();
        let range = before.range_of(changed, state.variables.list());
        state.variables.fresh(changed, range)
    }

    /// Copies what stays of the state before to the state of the changed variable.
    fn fill_fresh(
        &self,
        changed: &Variable,
        before: &StateBefore,
        change: &RowChange,
        fresh: &FreshSlots,
    ) -> Result<()> {
        let list = self.slots();
        let dimensions = changed.shape().len();
        for (index, (from, to)) in before.slots.iter().zip(&fresh.tensors).enumerate() {
            let extent = list[index].extent;
            let Some(shape) = extent.shape(&changed.shape()) else {
                continue;
            };
            if !extent.has_rows(dimensions) {
                // SAFETY: nobody else has the fresh tensor.
                unsafe { to.assume_exclusive() }.copy_from(from)?;
                continue;
            }
            let is_average = list.average() == Some(index);
            let fill = |whole: &Tensor| {
                // SAFETY: nobody else has the fresh tensor.
                let mut writing = unsafe { whole.assume_exclusive() };
                if is_average {
                    // SAFETY: nobody else has the changed variable.
                    writing.copy_from(unsafe { changed.committed() })?;
                }
                change.keep(from, &mut writing)
            };
            let scales = fresh.scales.get(index);
            let is_divided = before.is_divided && extent.is_elementwise(dimensions);
            if !is_divided && scales.is_none() {
                fill(to)?;
                continue;
            }
            let whole = Tensor::zeros(from.dtype(), shape, DeviceId::HOST)?;
            // SAFETY: nobody else has the fresh tensor.
            unsafe { whole.assume_exclusive() }.fill(list[index].initial)?;
            fill(&whole)?;
            let share = part_of(&whole, &before.range_of(changed, &list))?;
            if let Some(scales) = scales {
                encode(list.maps()[index], &share, to, scales)?;
                continue;
            }
            // SAFETY: as above.
            unsafe { to.assume_exclusive() }.copy_from(&share.reshape(to.shape())?)?;
        }
        Ok(())
    }
}

impl StateBefore {
    /// The elements of which this rank keeps the state afterwards. Codes are always divided.
    fn range_of(&self, changed: &Variable, list: &SlotList) -> Range<usize> {
        match self.is_divided || list.codes(changed) {
            true => own_part(changed),
            false => 0..changed.shape().elements(),
        }
    }
}

impl OptimizerMemory {
    /// How often a variable was updated, and whether this rank keeps a part of its state only.
    fn extent_of(&self, variable: &Variable) -> (u64, bool) {
        self.variables
            .position(variable)
            .map_or((0, false), |position| {
                let is_part = !self.variables.state(position).is_whole();
                (self.variables.updates[position], is_part)
            })
    }

    /// The changed variable takes the place of the one before. Cannot fail.
    fn put_in_place(
        &mut self,
        before: &Variable,
        changed: &Variable,
        fresh: Option<(usize, FreshSlots)>,
    ) {
        if let Some((position, fresh)) = fresh {
            self.variables.put_in_place(position, changed, fresh);
        }
        if let Some((_, group)) = self.groups.remove(&before.key()) {
            let member = (changed.clone(), group);
            self.groups.insert(changed.key(), member);
            self.groups_revision += 1;
        }
    }
}

/// The slots, once all ranks have the memory for theirs.
fn agreed_memory<T>(strategy: &Strategy, variable: &Variable, made: Result<T>) -> Result<T> {
    if strategy.ranks().is_alone() {
        return made;
    }
    let purpose = format_args!("the memory for the changed state of {variable:?}");
    let call = Call::to(CollectiveKind::State, &purpose);
    let (_, made) = strategy.ranks().start_collective(call, made)?;
    Ok(made)
}
