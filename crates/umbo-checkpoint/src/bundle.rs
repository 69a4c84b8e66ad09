//! The objects of one strategy that are saved and restored together.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::claimed_folders::ClaimedFolders;
use crate::metadata::SavedObject;
use crate::mismatch::refuse;
pub use crate::numbers::Number;
pub use crate::objects::iterator::SavedIterator;
pub use crate::objects::number::Counter;
use crate::objects::number::NumberCell;
pub use crate::objects::tensor::CallersTensor;
use crate::objects::variable::KIND as VARIABLE;
use crate::reader::CheckpointFile;
use crate::saveable::{Names, ObjectReader, PreparedRestore, RestoreAccess, Saveable};
use crate::wanted::{Values, WantedTensors};
use parking_lot::Mutex;
use umbo_base::error::{Error, Result};
use umbo_base::text::with_article;
use umbo_input::PreparedPosition;
use umbo_strategy::Strategy;
use umbo_strategy::commit::exclusion::{StepExclusion, WriteAccess};
use umbo_tensor::values::variable::Variable;

/// Objects by name, in the order in which they were added.
pub(super) type Entries = IndexMap<String, Arc<dyn Saveable>>;

/// The longest name of an object.
pub const LONGEST_NAME: usize = 4095;

/// Named objects that are saved and restored together. They all belong to one strategy, whose step
/// number is saved with them. Variables may also belong to the default strategy.
pub struct Checkpoint {
    strategy: Strategy,
    /// The objects by name, in the order in which they were added.
    entries: Mutex<Arc<Entries>>,
    /// The folders where its managers may save.
    pub(super) homes: ClaimedFolders,
}

impl Checkpoint {
    /// A checkpoint that has only the step number of `strategy`.
    pub fn new(strategy: &Strategy) -> Arc<Checkpoint> {
        let strategy = strategy.clone();
        Arc::new(Checkpoint {
            strategy,
            entries: Mutex::default(),
            homes: ClaimedFolders::default(),
        })
    }

    /// The strategy.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// Adds an object. Its name must differ from those of the others; but a variable that was made
    /// with other rows of one takes that one's place, and so do gradients of it.
    pub fn add(&self, name: &str, object: Arc<dyn Saveable>) -> Result<()> {
        let strategy = self.strategy.id();
        let fits = |owner| owner == strategy || (owner == 0 && object.kind() == VARIABLE);
        if !object.strategy().is_none_or(fits) {
            let problem =
                "made by a strategy other than the checkpoint; make a checkpoint for each";
            return Err(Error::invalid(object.kind(), problem));
        }
        check_name(name)?;
        let mut entries = self.entries.lock();
        let is_replaced = |other: &&Arc<dyn Saveable>| {
            other.kind() == object.kind() && other.variables().iter().any(Variable::is_replaced)
        };
        if let Some(other) = entries.get(name).filter(|other| !is_replaced(other)) {
            return Err(invalid!(
                "name",
                "the {} would be saved as '{name}', like {} that was added before; names in a \
                 checkpoint differ",
                object.kind(),
                with_article(other.kind())
            ));
        }
        let before = Arc::make_mut(&mut entries).insert(name.to_owned(), object);
        drop(entries);
        // It may be the last reference to what belongs to the program.
        drop(before);
        Ok(())
    }

    /// Sets a number of the caller, and adds it if it does not exist.
    pub fn set_number(&self, name: &str, value: Number) -> Result<()> {
        let known = self.entry(name);
        if let Some(cell) = known.as_ref().and_then(|object| object.number()) {
            let mut current = cell.lock();
            if std::mem::discriminant(&*current) != std::mem::discriminant(&value) {
                let problem = format!("'{name}' is {current:?}, and would be {value:?}");
                return Err(Error::invalid("name", problem));
            }
            *current = value;
            return Ok(());
        }
        self.add(name, Arc::new(NumberCell(Mutex::new(value))))
    }

    /// A number of the caller, as it was last set or restored.
    pub fn number(&self, name: &str) -> Result<Number> {
        let known = self.entry(name);
        let number = known
            .as_ref()
            .and_then(|object| object.number())
            .map(|cell| *cell.lock());
        number.ok_or_else(|| no_number(name))
    }

    /// The place of an integer that was set, for a caller that counts in every step. It stays the
    /// number's place as long as the checkpoint lives.
    ///
    /// NOT_FOUND: no such number. INVALID_ARGUMENT: a floating-point number.
    pub fn counter(&self, name: &str) -> Result<Counter> {
        if let Number::Float(number) = self.number(name)? {
            let problem = format!("'{name}' is {number:?}, and only an integer counts");
            return Err(Error::invalid("name", problem));
        }
        self.entry(name).map(Counter).ok_or_else(|| no_number(name))
    }

    /// The object with this name.
    pub(super) fn entry(&self, name: &str) -> Option<Arc<dyn Saveable>> {
        self.entries.lock().get(name).cloned()
    }

    /// The objects as they are now.
    pub(super) fn entries_now(&self) -> Arc<Entries> {
        Arc::clone(&self.entries.lock())
    }

    /// Restores all state from the file at `path`, or changes nothing. With several ranks, all
    /// ranks make this call, and all of them restore, or none.
    ///
    /// INVALID_ARGUMENT, with a list of all differences, if the objects and the file do not fit.
    /// FAILED_PRECONDITION: a step is in progress, on whatever thread (the message names it),
    /// or the strategy drains.
    pub fn restore(&self, path: &Path) -> Result<()> {
        drop(self.strategy.try_lock_between_steps()?);
        // The path may lead elsewhere when all is restored.
        let home = ClaimedFolders::home_of(path);
        self.restore_opened(CheckpointFile::open(path))?;
        if let Some(home) = home {
            self.homes.add(home);
        }
        Ok(())
    }

    /// Restores all state from a file that was opened, or refuses it on all ranks if it could not
    /// be opened on one.
    pub(super) fn restore_opened(&self, file: Result<CheckpointFile<'_>>) -> Result<()> {
        built_with!("checkpoints", "checkpoints");
        let entries = self.entries_now();
        let default = self.default_of(&entries);
        let prepared = file.and_then(|file| {
            let (ready, values) = self.prepare_all(&file, &entries)?;
            let quiet = self.strategy.try_lock_between_steps()?;
            let default = default
                .as_ref()
                .map(Strategy::try_lock_between_steps)
                .transpose()?;
            Ok((ready, values, quiet, default, file.own()?.steps.0))
        });
        let purpose = &"the restoring of a checkpoint";
        let ((ready, values, mut quiet, default, steps), _) =
            self.strategy
                .any_rank(purpose, "", 0, prepared, |_| false)?;
        // From here on nothing is refused.
        let mut positions = Vec::new();
        self.changing(&quiet, default.as_ref(), &values, |changes| {
            ready.into_iter().try_for_each(|ready| match ready {
                PreparedRestore::State(replace) => replace(changes),
                PreparedRestore::Position(position) => {
                    positions.push(position);
                    Ok(())
                }
            })
        })?;
        quiet.set_steps(steps);
        drop((quiet, default));
        positions.into_iter().try_for_each(PreparedPosition::go)
    }

    /// Checks that everything fits, then reads all that is to be restored, and does everything that
    /// can fail.
    fn prepare_all<'a>(
        &self,
        file: &CheckpointFile<'_>,
        entries: &'a Entries,
    ) -> Result<(Vec<PreparedRestore<'a>>, Values)> {
        file.own()?;
        let names = names_of(entries)?;
        let mut mismatches = Vec::new();
        let mut wanted = WantedTensors::default();
        let mut taken = vec![false; file.tensors().len()];
        let mut prepared = Vec::with_capacity(entries.len());
        let mut known_variables = 0;
        for (name, object) in entries {
            let found = saved_object(file, name, &**object, &mut mismatches);
            let Some((saved, position)) = found else {
                continue;
            };
            known_variables += usize::from(position.is_some());
            let taken = &mut taken[..];
            let wanted = &mut wanted;
            let mismatches = &mut mismatches;
            let mut saved = ObjectReader {
                file,
                object: name,
                saved,
                position,
                ranks: self.strategy.ranks(),
                taken,
                wanted,
                mismatches,
            };
            prepared.extend(object.prepare(&names, &mut saved)?);
        }
        let knows_all = known_variables == file.variable_count();
        report_unexpected(file, entries, knows_all, &taken, &mut mismatches);
        if mismatches.is_empty() && prepared.len() < entries.len() {
            let problem = "an object of the checkpoint was not prepared, for an unknown reason";
            return Err(Error::Internal(problem.into()));
        }
        refuse(file, &mismatches)?;
        Ok((prepared, file.read_wanted(&wanted)?))
    }

    /// Calls `change` with the right to change the variables of `entries`, and with `values`.
    pub(super) fn with_changes<R>(
        &self,
        values: &Values,
        change: impl FnOnce(&RestoreAccess<'_>) -> Result<R>,
    ) -> Result<R> {
        let quiet = self.strategy.try_lock_between_steps()?;
        let default = self.default_of(&self.entries_now());
        let default = default
            .as_ref()
            .map(Strategy::try_lock_between_steps)
            .transpose()?;
        self.changing(&quiet, default.as_ref(), values, change)
    }

    /// The default strategy, if one of the variables belongs to it and it is not the checkpoint's
    /// own.
    fn default_of(&self, entries: &Entries) -> Option<Strategy> {
        let strategy = self.strategy.id();
        let others =
            |object: &Arc<dyn Saveable>| object.strategy().is_some_and(|owner| owner != strategy);
        entries
            .values()
            .any(others)
            .then(Strategy::default_strategy)
    }

    fn changing<R>(
        &self,
        quiet: &StepExclusion<'_>,
        default: Option<&StepExclusion<'_>>,
        values: &Values,
        change: impl FnOnce(&RestoreAccess<'_>) -> Result<R>,
    ) -> Result<R> {
        let strategy = self.strategy.id();
        let both = |own_access: &WriteAccess<'_>, default: Option<&WriteAccess<'_>>| {
            let access = RestoreAccess {
                values,
                own_access,
                default,
                strategy,
                replaced: [values.len(), 0].map(|count| RefCell::new(Vec::with_capacity(count))),
            };
            let changed = change(&access)?;
            access.finish().map(|()| changed)
        };
        quiet.changing(|own_access| match default {
            Some(default) => default.changing(|default| both(own_access, Some(default))),
            None => both(own_access, None),
        })
    }

    /// The variables that were added, with the names under which they were added. Fails if another
    /// one has taken the place of one.
    pub(super) fn variables(&self) -> Result<Vec<(String, Variable)>> {
        let entries = self.entries_now();
        let variables = entries
            .iter()
            .filter(|(_, object)| object.kind() == VARIABLE);
        let named = variables.filter_map(|(name, object)| Some((name, object.variables().pop()?)));
        let present = named.map(|(name, variable)| {
            variable.check_not_replaced()?;
            Ok((name.clone(), variable))
        });
        present.collect()
    }
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "checkpoint of strategy {}", self.strategy.id())
    }
}

fn no_number(name: &str) -> Error {
    Error::NotFound(format!(
        "name: no number '{name}' was set in this checkpoint"
    ))
}

fn check_name(name: &str) -> Result<()> {
    let wrong = |problem: String| Err(Error::invalid("name", problem));
    if name.is_empty() {
        return wrong("empty; objects in a checkpoint have names".into());
    }
    if name.len() > LONGEST_NAME {
        return wrong(format!(
            "has {} bytes; at most {LONGEST_NAME} are expected",
            name.len()
        ));
    }
    if name == "__metadata__" {
        return wrong("'__metadata__' means something else in safetensors files".into());
    }
    Ok(())
}

/// The names of variables in the checkpoint, if an object asks for them.
pub(super) fn names_of(entries: &Entries) -> Result<Names<'_>> {
    let mut names = Names::default();
    if !entries.values().any(|object| object.asks_for_names()) {
        return Ok(names);
    }
    let (variables, others): (Vec<_>, Vec<_>) = entries
        .iter()
        .partition(|(_, object)| object.kind() == VARIABLE);
    for (name, object) in variables {
        for variable in object.variables() {
            names.add(&variable, name.into())?;
        }
    }
    for (_, object) in others {
        for variable in object.variables() {
            names.add(&variable, variable.name().as_str().to_owned().into())?;
        }
    }
    Ok(names)
}

/// Whether a tensor of this name is, or may be, the object or a part of it.
pub(super) fn owns(object: &str, tensor: &str) -> bool {
    tensor
        .strip_prefix(object)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// An object in the file, if the file has it and its kind is the same; of a variable also the
/// position of its tensor.
fn saved_object<'a>(
    file: &'a CheckpointFile<'_>,
    name: &str,
    object: &dyn Saveable,
    mismatches: &mut Vec<String>,
) -> Option<(&'a SavedObject, Option<usize>)> {
    let kind = object.kind();
    let Some((saved, position)) = file.object(name) else {
        mismatches.push(format!("missing: the file has no {kind} '{name}'"));
        return None;
    };
    if saved.kind != kind {
        let added = with_article(kind);
        let saved_kind = with_article(&saved.kind);
        mismatches.push(format!(
            "kind: '{name}' is {added} here, {saved_kind} in the file"
        ));
        return None;
    }
    Some((saved, position))
}

/// Adds what is in the file but was not taken by any object. `knows_all` says that no variable of
/// the file is unknown here.
fn report_unexpected(
    file: &CheckpointFile<'_>,
    entries: &Entries,
    knows_all: bool,
    taken: &[bool],
    mismatches: &mut Vec<String>,
) {
    let mut reported = Vec::new();
    let variables = file.variables().take(match knows_all {
        true => 0,
        false => usize::MAX,
    });
    for (name, saved) in file.other_objects().chain(variables) {
        let added_kind = entries.get(name).map(|object| object.kind());
        if added_kind.is_none() {
            let kind = with_article(&saved.kind);
            mismatches.push(format!(
                "unexpected: the file has {kind} '{name}', which was not added"
            ));
        }
        if added_kind != Some(&saved.kind[..]) {
            reported.push(name);
        }
    }
    for (name, is_taken) in file.tensors().keys().zip(taken) {
        if !is_taken && !reported.iter().any(|object| owns(object, name)) {
            let problem =
                format!("unexpected: the file has a tensor '{name}', which nothing here takes");
            mismatches.push(problem);
        }
    }
}
