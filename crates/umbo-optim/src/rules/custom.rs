//! Update rules that a program defines.

use std::fmt;

use crate::rules::{
    CustomKernel, QueueUpdate, Rates, Scalars, Slot, UpdateRule, VariableProgress, WeightDecay,
    check_not_negative,
};
use umbo_base::error::{Error, Result};
use umbo_kernels::update::pass::UpdatePass;
use umbo_kernels::update::tiles::{MOST_SLOTS, Tile};

/// Updates the elements of one tile. The number counts the updates of the variable before this one;
/// the weight decay among the rates is what the function itself has to do. Called by several
/// threads at once, each with tiles of its own, in the fused pass: it cannot fail, and must not use
/// the library.
pub type TileUpdate = dyn Fn(&Tile<'_>, &Rates, u64) + Send + Sync;

/// A rule whose arithmetic is a function of the program. Everything else is as for the other rules:
/// the gradient is reduced and clipped, state is kept for each variable, row-sparse variables are
/// updated by rows.
pub struct Custom {
    name: String,
    slots: Vec<Slot>,
    weight_decay: f64,
    meaning: WeightDecay,
    update: Box<TileUpdate>,
    on_gpu: Option<Box<QueueUpdate>>,
}

impl Custom {
    /// A rule with this name and state. The weight decay is finite and at least 0; if it is
    /// [`WeightDecay::L2`] it is in the gradient already. `on_gpu` updates variables on a GPU.
    pub fn new(
        name: String,
        slots: Vec<Slot>,
        weight_decay: f64,
        meaning: WeightDecay,
        update: Box<TileUpdate>,
        on_gpu: Option<Box<QueueUpdate>>,
    ) -> Result<Custom> {
        check_not_negative("weight_decay", weight_decay)?;
        if slots.len() > MOST_SLOTS {
            let problem = format!("{}; a rule has at most {MOST_SLOTS} states", slots.len());
            return Err(Error::invalid("state_count", problem));
        }
        for (position, slot) in slots.iter().enumerate() {
            let name = &slot.name;
            if name.is_empty()
                || slots[..position]
                    .iter()
                    .any(|earlier| earlier.name == *name)
            {
                let problem = format!("'{name}', at {position}, is empty or appears twice");
                return Err(Error::invalid("state_names", problem));
            }
            if !slot.initial.is_finite() {
                let problem = format!("{}, at {position}; must be finite", slot.initial);
                return Err(Error::invalid("state_initials", problem));
            }
        }
        Ok(Custom {
            name,
            slots,
            weight_decay,
            meaning,
            update,
            on_gpu,
        })
    }

    /// The rates that the program's function receives, and how many updates came before.
    fn rates(&self, scalars: &Scalars) -> (Rates, u64) {
        let mut rates = scalars.rates;
        if self.meaning == WeightDecay::L2 {
            rates.weight_decay = 0.0;
        }
        (rates, scalars.running[0] as u64 - 1)
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "custom rule '{}'", self.name)
    }
}

impl UpdateRule for Custom {
    fn name(&self) -> &str {
        &self.name
    }

    fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("weight_decay", self.weight_decay),
            self.meaning.setting(),
            ("state_count", self.slots.len() as f64),
        ]
    }

    fn slots(&self) -> &[Slot] {
        &self.slots
    }

    fn weight_decay(&self) -> WeightDecay {
        self.meaning
    }

    fn default_weight_decay(&self) -> f64 {
        self.weight_decay
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        Ok(Scalars::counted(rates, progress.running))
    }

    fn is_elementwise(&self) -> bool {
        false
    }

    fn custom_kernel(&self, scalars: &Scalars) -> Option<CustomKernel<'_>> {
        let (rates, step) = self.rates(scalars);
        Some(CustomKernel {
            queue: self.on_gpu.as_deref()?,
            rates,
            step,
        })
    }

    fn update(&self, scalars: &Scalars, pass: &UpdatePass<'_>) {
        let (rates, step) = self.rates(scalars);
        pass.run_tiles(&mut |tile| (self.update)(tile, &rates, step));
    }
}
