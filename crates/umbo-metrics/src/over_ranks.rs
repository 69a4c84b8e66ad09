//! Metrics of several ranks: what the replicas of each rank have added in a step reaches all ranks
//! at the step's commit point.

use crate::Metrics;
use crate::part::AddedToEntry;
use umbo_base::error::{Error, Result, memory};
use umbo_strategy::ranks::totals::Totals;
use umbo_strategy::ranks::wire::{Reader, Writer};

impl Totals for Metrics {
    fn with_definitions(&self, look: &mut dyn FnMut(&str)) {
        look(&self.definitions.lock());
    }

    fn encode(&self, step: u64, to: &mut Writer) -> Result<()> {
        to.number(self.parts.len() as u64)?;
        for part in &self.parts {
            let part = part.lock();
            let has_added = part.step == step;
            let slots = part.slots.values().filter(|_| has_added);
            to.number(slots.clone().count() as u64)?;
            for slot in slots {
                to.float(slot.sum)?;
                to.float(slot.weight)?;
                to.number(slot.hits as u64)?;
                to.number(slot.predictions as u64)?;
                to.number(slot.cells.len() as u64)?;
                let mut bytes = memory::list(slot.cells.len() * size_of::<u32>(), "cells")?;
                bytes.extend(slot.cells.iter().flat_map(|cell| cell.to_le_bytes()));
                to.bytes(&bytes)?;
                to.number(slot.weights.len() as u64)?;
                slot.weights
                    .iter()
                    .try_for_each(|&weight| to.float(weight))?;
            }
        }
        Ok(())
    }

    fn decode(&self, from: &mut Reader<'_>) -> Result<()> {
        let mut entries = self.entries.lock();
        for _ in 0..from.count()? {
            for number in 0..from.count()? {
                let (_, entry) = entries.get_index_mut(number).ok_or_else(|| {
                    Error::precondition("the ranks have defined different metrics")
                })?;
                let mut slot = AddedToEntry::new(entry.definition);
                (slot.sum, slot.weight) = (from.float()?, from.float()?);
                (slot.hits, slot.predictions) = (from.number()? as i64, from.number()? as i64);
                let cells = from.count()?;
                slot.cells = memory::list(cells, "cells")?;
                let bytes = from.bytes(cells * size_of::<u32>())?;
                let cell = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap_or_default());
                slot.cells
                    .extend(bytes.chunks_exact(size_of::<u32>()).map(cell));
                let weights = from.count()?;
                slot.weights = memory::list(weights, "weights of cells")?;
                for _ in 0..weights {
                    slot.weights.push(from.float()?);
                }
                let known = entry.total.cells().map_or(0, <[f64]>::len);
                if slot.cells.iter().any(|&cell| cell as usize >= known) {
                    return Err(Error::precondition(
                        "the ranks have defined different metrics",
                    ));
                }
                entry.total.fold(&slot);
            }
        }
        Ok(())
    }
}
