//! Saves the state of a checkpoint's objects, as it is between two steps.
//!
//! A file for which the caller waits is written from the state itself, while no step can begin.
//! This saves the time and the memory of a copy. A file that is written while training continues is
//! written from a copy.

#![expect(
    unsafe_code,
    reason = "state is written as it is while nobody changes it"
)]

use std::path::Path;
use std::sync::Arc;

use crate::bundle::{Checkpoint, Entries, names_of, owns};
use crate::metadata::{ManagerNotes, SavedObject};
use crate::objects::variable::{KIND as VARIABLE, value_of};
use crate::saveable::{ObjectRecord, Saveable, full_name};
use crate::snapshot::{SavedTensor, Snapshot};
use crate::writer::replace;
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};
use umbo_optim::Gradients;
use umbo_strategy::context::strict_callbacks::mistake;
use umbo_tensor::Tensor;

/// The ranks that save.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Savers {
    /// All of them together, each what it keeps.
    AllRanks,
    /// This one, which exchanges nothing and saves everything.
    ThisRank,
}

impl Checkpoint {
    /// Copies all state between two steps: waits for the step in progress. The positions of
    /// iterators are read before that, so the thread that takes elements and runs steps must
    /// make this call.
    ///
    /// FAILED_PRECONDITION inside of a run, while the strategy drains, and if gradients hold
    /// contributions that were submitted and not applied. RESOURCE_EXHAUSTED: no memory for the
    /// copies.
    ///
    /// With several ranks, all ranks make this call. The copy of rank 0 has everything that the
    /// ranks have in common, and each copy has the state that its rank keeps: its parts of tensors,
    /// and its position in data of its own.
    pub fn snapshot(&self) -> Result<Snapshot> {
        // SAFETY: copies are taken.
        unsafe { self.recorded(Savers::AllRanks, false, Ok) }
    }

    /// Calls `take` with all state, as it is between two steps, before the next step can begin. If
    /// it `shares`, what only steps of the checkpoint's strategy change is the state itself and
    /// no copy. Everything else is as with [`Checkpoint::snapshot`].
    ///
    /// # Safety
    /// If it shares, `take` drops the snapshot.
    unsafe fn recorded<R>(
        &self,
        savers: Savers,
        shares: bool,
        take: impl FnOnce(Snapshot) -> Result<R>,
    ) -> Result<R> {
        built_with!("checkpoints", "checkpoints");
        let entries = self.entries_now();
        let mut snapshot = Snapshot::default();
        let save = |calls_back: bool, snapshot: &mut Snapshot| {
            if !entries
                .values()
                .any(|object| object.may_call_back() == calls_back)
            {
                return Ok(());
            }
            let names = names_of(&entries)?;
            let rank = self.strategy().rank();
            for (name, object) in entries.iter() {
                if object.may_call_back() != calls_back {
                    continue;
                }
                let mut record = ObjectRecord::default();
                if shares && !calls_back {
                    // SAFETY: the strategy is quiet until the snapshot is dropped, which the caller
                    // promises.
                    unsafe { record.share_state_of(self.strategy().id()) };
                }
                let saved = object.save(&names, &mut record);
                saved.map_err(|error| error.within(format!("{} '{name}'", object.kind())))?;
                check_common(savers, name, &**object, &record)?;
                let is_first = rank == 0 || savers == Savers::ThisRank;
                add_entry(name, object.kind(), record, is_first, snapshot);
            }
            Ok(())
        };
        // In a step the call is refused before it does anything, and code that is called back must
        // not wait for itself.
        drop(self.strategy().lock_between_steps()?);
        let called = save(true, &mut snapshot);
        // They are dropped after the lock, since they may be the last references to objects of the
        // caller.
        let mut applied = Vec::new();
        let quiet = self.strategy().lock_between_steps()?;
        let saved = called
            .and_then(|()| check_applied(&entries, &mut applied))
            .and_then(|()| save(false, &mut snapshot))
            .and_then(|()| check_distinct(&snapshot, &entries))
            .and_then(|()| match &snapshot.warning {
                Some(warning) if self.strategy().is_strict() => Err(mistake(warning)),
                _ => Ok(()),
            });
        match savers {
            Savers::ThisRank => saved?,
            // If this fails on one rank, it fails on all.
            Savers::AllRanks => {
                self.strategy().begin_series(0);
                self.strategy().agree(saved)?;
            }
        }
        snapshot.steps = quiet.steps();
        let warning = snapshot.warning.take();
        snapshot.sort();
        let taken = take(snapshot);
        drop(quiet);
        // The log's sink is the caller's code, and may run a step.
        if let Some(warning) = warning {
            log::log(Level::Warning, || warning);
        }
        taken
    }

    /// Replaces the file at `path` by one with all state. Whatever fails, either the old file or
    /// the new one is there, complete. With several ranks, all ranks make this call. Their
    /// parts are beside the file, in a folder that all ranks see. Steps of other threads wait
    /// until everything is written, but not until it is on the disk.
    pub fn save(&self, path: &Path) -> Result<()> {
        self.save_noting(path, None)
    }

    /// Saves the same file, with a manager's notes in it.
    pub(super) fn save_noting(&self, path: &Path, manager: Option<ManagerNotes>) -> Result<()> {
        let noted = |snapshot: Snapshot| Snapshot {
            manager,
            ..snapshot
        };
        if self.strategy().ranks().is_alone() {
            let begin = |snapshot: Snapshot| noted(snapshot).begin(path);
            // SAFETY: the snapshot is dropped when it is written.
            return replace(unsafe { self.recorded(Savers::AllRanks, true, begin) }?);
        }
        let begin = |snapshot: Snapshot| noted(snapshot).write_part(self.strategy(), path);
        // SAFETY: the snapshot is dropped when it is written.
        unsafe { self.recorded(Savers::AllRanks, true, begin) }?.finish()
    }

    /// Calls `write` with all state, as it is between two steps, before the next step can begin.
    /// Of elastic ranks each does so for itself, also when they cannot meet any more.
    pub(super) fn with_state<R>(&self, write: impl FnOnce(&Snapshot) -> Result<R>) -> Result<R> {
        let savers = match self.strategy().ranks().are_elastic() {
            true => Savers::ThisRank,
            false => Savers::AllRanks,
        };
        // SAFETY: the snapshot is dropped when it is written.
        unsafe { self.recorded(savers, true, |snapshot| write(&snapshot)) }
    }

    /// Calls `write` with the variables alone, before the next step can begin. It drops the
    /// snapshot. `convert` makes the tensor of a variable that is saved.
    pub(super) fn with_weights<R>(
        &self,
        convert: impl Fn(&str, Tensor) -> Result<Tensor>,
        write: impl FnOnce(Snapshot) -> Result<R>,
    ) -> Result<R> {
        let quiet = self.strategy().lock_between_steps()?;
        let mut snapshot = Snapshot {
            steps: quiet.steps(),
            is_for_others: true,
            ..Snapshot::default()
        };
        for (name, variable) in self.variables()? {
            let mut record = ObjectRecord::default();
            // SAFETY: the strategy is quiet until all is written.
            unsafe { record.share_state_of(self.strategy().id()) };
            let value = convert(&name, value_of(&variable, &record)?)?;
            snapshot.tensors.push(SavedTensor {
                name,
                tensor: value,
                is_variable: true,
            });
        }
        snapshot.sort();
        let written = write(snapshot);
        drop(quiet);
        written
    }
}

impl ObjectRecord {
    /// Allows tensors of the record to be the state itself, if only steps of this strategy change
    /// it.
    ///
    /// # Safety
    /// The tensors are dropped before the saving call returns. As long as one of them is used, no
    /// step of the strategy is in progress and none begins.
    unsafe fn share_state_of(&mut self, strategy: u64) {
        self.quiet = Some(strategy);
    }
}

/// Fails if one rank is to save for all what each has for itself.
fn check_common(
    savers: Savers,
    name: &str,
    object: &dyn Saveable,
    record: &ObjectRecord,
) -> Result<()> {
    match record.properties_of_rank.keys().next() {
        Some(property) if savers == Savers::ThisRank => Err(Error::Unimplemented(format!(
            "the {property} of {} '{name}', which each rank has for itself and takes with it when \
             it leaves: leave the {} out of this checkpoint, or have all ranks read the same data",
            object.kind(),
            object.kind()
        ))),
        _ => Ok(()),
    }
}

/// Adds the state of one object.
fn add_entry(
    name: &str,
    kind: &str,
    mut record: ObjectRecord,
    is_first: bool,
    snapshot: &mut Snapshot,
) {
    snapshot.warning = snapshot.warning.take().or(record.warning);
    for (part, sharding) in record.sharded {
        snapshot
            .sharded
            .insert(full_name(name, Some(&part)).into_owned(), sharding);
    }
    for (part, tensor) in record.tensors {
        let name = full_name(name, part.as_deref());
        // What all ranks have in common is in the file of the first rank.
        if is_first || snapshot.sharded.contains_key(&*name) {
            snapshot.tensors.push(SavedTensor {
                name: name.into_owned(),
                tensor,
                is_variable: kind == VARIABLE,
            });
        }
    }
    if kind == VARIABLE {
        return;
    }
    let mut properties = record.properties_of_rank;
    if is_first {
        properties.append(&mut record.properties);
    }
    if is_first || !properties.is_empty() {
        let kind = kind.to_owned();
        let saved = SavedObject { kind, properties };
        snapshot.objects.insert(name.to_owned(), saved);
    }
}

/// Fails if an optimizer would be saved without contributions that belong to its next update.
fn check_applied(entries: &Entries, applied: &mut Vec<Arc<Gradients>>) -> Result<()> {
    for (name, optimizer) in entries {
        for gradients in optimizer.applied() {
            let is_saved = |object: &Arc<dyn Saveable>| {
                std::ptr::addr_eq(Arc::as_ptr(object), Arc::as_ptr(&gradients))
            };
            let unapplied = match entries.values().any(is_saved) {
                true => None,
                false => gradients.unapplied()?,
            };
            applied.push(gradients);
            if let Some(held) = unapplied {
                return Err(Error::precondition(format!(
                    "{} '{}' applies gradients that were not added to the checkpoint and hold \
                     {held}, which would be lost: add them, or save after the update that takes \
                     them",
                    optimizer.kind(),
                    name
                )));
            }
        }
    }
    Ok(())
}

/// Fails if two objects would save tensors with the same name.
fn check_distinct(snapshot: &Snapshot, entries: &Entries) -> Result<()> {
    let order = snapshot.by_name();
    for pair in order.windows(2) {
        let [first, name] = [pair[0], pair[1]].map(|position| &snapshot.tensors[position].name);
        if first == name {
            let owners = entries.iter().filter(|(object, _)| owns(object, name));
            let owners: Vec<String> = owners
                .map(|(name, object)| format!("{} '{name}'", object.kind()))
                .collect();
            let problem = format!(
                "two tensors would be saved as '{name}', by {}; add one of them by another name",
                owners.join(" and ")
            );
            return Err(Error::invalid("checkpoint", problem));
        }
    }
    Ok(())
}
