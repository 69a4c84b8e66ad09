//! The traits and types with which objects are saved and restored.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use crate::bundle::owns;
use crate::metadata::{SavedObject, SavedSharding};
use crate::numbers::Number;
use crate::reader::CheckpointFile;
pub use crate::wanted::PendingTensor;
use crate::wanted::{Values, WantedTensors};
use umbo_base::error::{Error, Result};
use umbo_input::PreparedPosition;
use umbo_optim::Gradients;
use umbo_strategy::commit::exclusion::WriteAccess;
use umbo_strategy::ranks::Ranks;
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{DType, Shape, Tensor};

/// An object whose state can be saved and restored.
///
/// State that steps change is saved and restored while no step of the object's strategy is in
/// progress and none can begin.
pub trait Saveable: Send + Sync {
    /// Its kind, in one or two words. The file contains it, too.
    fn kind(&self) -> &'static str;

    /// The id of the strategy whose steps change it; `None` if steps do not change it.
    fn strategy(&self) -> Option<u64> {
        None
    }

    /// The variables for which it saves state. The state is saved under their names.
    fn variables(&self) -> Vec<Variable> {
        Vec::new()
    }

    /// Whether it saves state under the names of variables, and so asks for them.
    fn asks_for_names(&self) -> bool {
        false
    }

    /// Whether saving or restoring it may call the caller's functions, which may wait for steps. If
    /// so, both happen while steps can be taken.
    fn may_call_back(&self) -> bool {
        false
    }

    /// The gradients whose contributions it has applied. Contributions that these hold belong to
    /// the state, too.
    fn applied(&self) -> Vec<Arc<Gradients>> {
        Vec::new()
    }

    /// The number that it is, if it is one of the caller's.
    fn number(&self) -> Option<&Mutex<Number>> {
        None
    }

    /// The string that it is, if it is one of the caller's.
    fn string(&self) -> Option<&Mutex<String>> {
        None
    }

    /// Copies the state to `record`. If [`ObjectRecord::shares`] allows it, adds the state itself
    /// instead.
    fn save(&self, names: &Names<'_>, record: &mut ObjectRecord) -> Result<()>;

    /// Checks all that is to be restored, reads it or requests its reading, and does everything
    /// that can fail. All differences are noted in `saved`. If any object differs, nothing
    /// changes anywhere. Returns none if the object cannot be restored and the reason was
    /// noted.
    fn prepare<'a>(&'a self, names: &Names<'_>, saved: &mut ObjectReader<'_>) -> Ready<'a>;
}

/// The result of [`Saveable::prepare`].
pub type Ready<'a> = Result<Option<PreparedRestore<'a>>>;

/// Replaces a state.
pub type Replace<'a> = dyn FnOnce(&RestoreAccess<'_>) -> Result<()> + 'a;

/// The work that remains once everything was read and fits. It fails only by a defect of this
/// library.
pub enum PreparedRestore<'a> {
    /// Replaces the state, while no step is in progress.
    State(Box<Replace<'a>>),
    /// Moves an iterator, once steps can be taken again, because its old pass may call the caller's
    /// functions.
    Position(PreparedPosition<'a>),
}

impl<'a> PreparedRestore<'a> {
    /// Replaces the state by this function.
    pub(super) fn by(replace: impl FnOnce(&RestoreAccess<'_>) -> Result<()> + 'a) -> Self {
        PreparedRestore::State(Box::new(replace))
    }
}

/// The right to change variables of the checkpoint's strategy and of the default one, and the
/// values that were read.
pub struct RestoreAccess<'a> {
    pub(super) values: &'a Values,
    pub(super) own_access: &'a WriteAccess<'a>,
    pub(super) default: Option<&'a WriteAccess<'a>>,
    pub(super) strategy: u64,
    /// The values that variables of the checkpoint's strategy, and of the default one, get in the
    /// end.
    pub(super) replaced: [RefCell<Vec<(Variable, Tensor)>>; 2],
}

impl RestoreAccess<'_> {
    /// The tensor that was read for `later`.
    pub fn value(&self, later: PendingTensor) -> Result<&Tensor> {
        self.values.get(later)
    }

    /// Makes `value` the committed value of `variable`, whose dtype and shape it has, once all is
    /// replaced that is not a variable.
    pub fn replace(&self, variable: &Variable, value: &Tensor) {
        let is_own = self.default.is_none() || variable.spec().strategy == self.strategy;
        let [of_strategy, of_default] = &self.replaced;
        let replaced = if is_own { of_strategy } else { of_default };
        replaced
            .borrow_mut()
            .push((variable.clone(), value.clone()));
    }

    /// Replaces the values of the variables, many of them at a time.
    pub(super) fn finish(self) -> Result<()> {
        let [of_strategy, of_default] = self.replaced.map(RefCell::into_inner);
        self.own_access.replace_all(&pairs_of(&of_strategy))?;
        self.default.map_or(Ok(()), |default| {
            default.replace_all(&pairs_of(&of_default))
        })
    }
}

fn pairs_of(values: &[(Variable, Tensor)]) -> Vec<(&Variable, &Tensor)> {
    values
        .iter()
        .map(|(variable, value)| (variable, value))
        .collect()
}

/// The names of variables in a checkpoint: the names under which they were added, and for other
/// variables their own. Where no object [asks](Saveable::asks_for_names) for them, there are none.
#[derive(Default)]
pub struct Names<'a> {
    names_by_key: HashMap<usize, Cow<'a, str>>,
    variables: HashMap<Cow<'a, str>, Variable>,
}

impl<'a> Names<'a> {
    /// Gives `variable` a name, unless it has one. Fails if another variable has this name.
    pub(super) fn add(&mut self, variable: &Variable, name: Cow<'a, str>) -> Result<()> {
        let Entry::Vacant(place) = self.names_by_key.entry(variable.key()) else {
            return Ok(());
        };
        if let Some(other) = self.variables.get(&name) {
            let problem = format!(
                "two variables would be saved as '{name}': {other:?} and another {variable:?}; \
                 add one of them to the checkpoint by another name"
            );
            return Err(Error::invalid("checkpoint", problem));
        }
        place.insert(name.clone());
        self.variables.insert(name, variable.clone());
        Ok(())
    }

    /// The name of a variable.
    pub fn name(&self, variable: &Variable) -> Result<&str> {
        self.names_by_key
            .get(&variable.key())
            .map(|name| &**name)
            .ok_or_else(|| Error::Internal(format!("{variable:?} has no name in the checkpoint")))
    }

    /// The variable with this name.
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.get(name)
    }
}

/// The saved state of one object: tensors, with the names of the parts, and values that are not
/// tensors.
#[derive(Default)]
pub struct ObjectRecord {
    pub(super) tensors: Vec<(Option<String>, Tensor)>,
    /// How several ranks divide the tensors of parts, by the parts' names.
    pub(super) sharded: Vec<(String, SavedSharding)>,
    pub(super) properties: Map<String, Json>,
    /// The properties that each rank has for itself.
    pub(super) properties_of_rank: Map<String, Json>,
    /// A probable mistake of the program, for a warning.
    pub(super) warning: Option<String>,
    /// The strategy that takes no step before the record is dropped.
    pub(super) quiet: Option<u64>,
}

impl ObjectRecord {
    /// Whether tensors that only steps of this strategy change need not be copied: there are no
    /// steps as long as the record's tensors are used.
    pub fn shares(&self, strategy: u64) -> bool {
        self.quiet == Some(strategy)
    }

    /// Whether the record is written and dropped before the saving call returns.
    pub fn is_written_at_once(&self) -> bool {
        self.quiet.is_some()
    }

    /// Adds a tensor that is the whole object. It is saved under the object's name. It must not
    /// change any more.
    pub fn whole(&mut self, tensor: Tensor) {
        self.tensors.push((None, tensor));
    }

    /// Adds a tensor that is a part of the object. It must not change any more.
    pub fn part(&mut self, name: impl Into<String>, tensor: Tensor) {
        self.tensors.push((Some(name.into()), tensor));
    }

    /// Adds a part that has the shape of `variable` and is divided like it. `tensor` is this rank's
    /// range of elements, or the whole tensor if ranks do not divide it.
    pub fn part_like(&mut self, name: String, variable: &Variable, tensor: Tensor) {
        if let Some(sharding) = variable.sharding() {
            let shape = variable.shape();
            let boundaries = sharding.boundaries();
            self.sharded
                .push((name.clone(), SavedSharding { shape, boundaries }));
        }
        self.part(name, tensor);
    }

    /// Adds a part that has one element for each block of `block` elements of `variable`, of which
    /// the last may be shorter, and that is divided like it, at multiples of `block`.
    pub fn part_of_blocks(
        &mut self,
        name: String,
        variable: &Variable,
        block: usize,
        tensor: Tensor,
    ) -> Result<()> {
        if let Some(sharding) = variable.sharding() {
            let boundaries = sharding.boundaries().into_iter();
            let boundaries = boundaries
                .map(|boundary| boundary.div_ceil(block))
                .collect();
            let shape = Shape::new(&[variable.shape().elements().div_ceil(block)])?;
            self.sharded
                .push((name.clone(), SavedSharding { shape, boundaries }));
        }
        self.part(name, tensor);
        Ok(())
    }

    /// Adds the values of the object that are not tensors, the fields of a struct.
    pub(super) fn properties(&mut self, properties: &impl Serialize) -> Result<()> {
        match serde_json::to_value(properties) {
            Ok(Json::Object(properties)) => {
                self.properties.extend(properties);
                Ok(())
            }
            other => Err(Error::Internal(format!(
                "properties of an object: {other:?}"
            ))),
        }
    }

    /// Adds a property that all ranks have in common.
    pub fn property(&mut self, name: &str, value: impl Into<Json>) {
        self.properties.insert(name.to_owned(), value.into());
    }

    /// Adds a property that may differ between ranks: each rank saves its own.
    pub fn property_of_rank(&mut self, name: &str, value: impl Into<Json>) {
        self.properties_of_rank
            .insert(name.to_owned(), value.into());
    }
}

/// The entries of one object in a file, and the list of differences.
pub struct ObjectReader<'a> {
    pub(super) file: &'a CheckpointFile<'a>,
    pub(super) object: &'a str,
    pub(super) saved: &'a SavedObject,
    /// The position of its tensor among those of the file, if it is a variable.
    pub(super) position: Option<usize>,
    /// The ranks that restore it.
    pub(super) ranks: &'a Ranks,
    /// Whether each tensor of the file is expected, in the order of their names.
    pub(super) taken: &'a mut [bool],
    pub(super) wanted: &'a mut WantedTensors,
    pub(super) mismatches: &'a mut Vec<String>,
}

impl ObjectReader<'_> {
    /// Notes a difference.
    pub fn differs(&mut self, problem: impl Into<String>) {
        self.mismatches
            .push(format!("{}: {}", self.object, problem.into()));
    }

    /// The values of the object that are not tensors. None if they are not those of such an object,
    /// which is noted.
    pub(super) fn properties<T: DeserializeOwned>(&mut self) -> Option<T> {
        match T::deserialize(&self.saved.properties) {
            Ok(properties) => Some(properties),
            Err(error) => {
                self.differs(format!("its values in the file are not valid: {error}"));
                self.take_all();
                None
            }
        }
    }

    /// A property that each rank has saved for itself: the one of this rank. If those of the ranks
    /// differ, as many ranks must restore them, and `may_differ` says whether the object can take
    /// one that differs between them. None if there is none, which is noted.
    pub(super) fn property_of_rank<T: DeserializeOwned>(
        &mut self,
        name: &str,
        may_differ: bool,
    ) -> Option<T> {
        let file = self.file;
        let saved = file.properties_of_ranks(self.object, name);
        if saved.windows(2).all(|pair| pair[0] == pair[1]) {
            return self.parsed(name, saved.first().copied());
        }
        let problem = match (saved.len(), self.ranks.size()) {
            (saving, restoring) if saving != restoring => format!(
                "the number of ranks is {restoring} now: restore it on {saving} ranks, or leave \
                 what has it out of checkpoints for any number of ranks"
            ),
            _ if !may_differ => "these ranks read the same data: restore it into an object whose \
                                 ranks have the data that those had"
                .to_owned(),
            _ => return self.parsed(name, saved.get(self.ranks.rank()).copied()),
        };
        self.differs(format!(
            "its {name} differs between the {} ranks that have saved it, which had data of their \
             own, and {problem}",
            saved.len()
        ));
        None
    }

    fn parsed<T: DeserializeOwned>(&mut self, name: &str, found: Option<&Json>) -> Option<T> {
        let Some(found) = found else {
            self.differs(format!("the file does not have its {name}"));
            return None;
        };
        let value = T::deserialize(found);
        value
            .map_err(|error| self.differs(format!("its {name} in the file is not valid: {error}")))
            .ok()
    }

    /// Notes that a tensor of the file is expected, because its owner was mentioned.
    pub fn take(&mut self, part: &str) {
        self.take_named(&full_name(self.object, Some(part)), None);
    }

    /// The position of the tensor of this name, which is expected. It may be known already.
    fn take_named(&mut self, name: &str, known: Option<usize>) -> Option<usize> {
        let position = known.or_else(|| self.file.tensors().get_index_of(name))?;
        self.taken[position] = true;
        Some(position)
    }

    /// Notes that all tensors of the object are expected, because it was mentioned.
    pub fn take_all(&mut self) {
        for (name, taken) in self.file.tensors().keys().zip(&mut *self.taken) {
            *taken |= owns(self.object, name);
        }
    }

    /// Whether the file has this part of the object.
    pub fn has_part(&self, part: &str) -> bool {
        self.file
            .info(&full_name(self.object, Some(part)))
            .is_some()
    }

    /// The number of rows of the file's tensor for this part.
    pub fn rows(&self, part: &str) -> Option<usize> {
        self.file
            .info(&full_name(self.object, Some(part)))?
            .1
            .first()
            .copied()
    }

    /// The elements that this rank updates of a tensor of this dtype with the shape of `variable`:
    /// its range, or all elements if ranks do not divide the tensor. None as for
    /// [`ObjectReader::tensor`].
    pub fn part_as(
        &mut self,
        part: &str,
        variable: &Variable,
        dtype: DType,
    ) -> Result<Option<PendingTensor>> {
        self.part_of(part, variable, dtype, variable.shape(), 1)
    }

    /// The same of a part that has one element of this dtype for each block of `block` elements of
    /// `variable`.
    pub fn part_of_blocks(
        &mut self,
        part: &str,
        variable: &Variable,
        dtype: DType,
        block: usize,
    ) -> Result<Option<PendingTensor>> {
        let shape = Shape::new(&[variable.shape().elements().div_ceil(block)])?;
        self.part_of(part, variable, dtype, shape, block)
    }

    fn part_of(
        &mut self,
        part: &str,
        variable: &Variable,
        dtype: DType,
        shape: Shape,
        block: usize,
    ) -> Result<Option<PendingTensor>> {
        let Some(sharding) = variable.sharding() else {
            return self.later(Some(part), dtype, shape);
        };
        let name = full_name(self.object, Some(part));
        let own_range = sharding.own();
        let own_range = own_range.start.div_ceil(block)..own_range.end.div_ceil(block);
        let tensor =
            self.file
                .read_part_expecting(&name, dtype, shape, &own_range, self.mismatches)?;
        self.take_named(&name, None);
        Ok(tensor.map(|tensor| self.wanted.add_read(tensor)))
    }

    /// The tensor of the object, or of this part of it, with this dtype and shape. It is read once
    /// it is known that all objects fit. None if the file has no such tensor or a different
    /// one, which is noted.
    pub fn later(
        &mut self,
        part: Option<&str>,
        dtype: DType,
        shape: Shape,
    ) -> Result<Option<PendingTensor>> {
        let name = full_name(self.object, part);
        let known = self.position.filter(|_| part.is_none());
        let position = self.take_named(&name, known);
        let kind = (dtype, shape);
        self.file
            .want_at(position, &name, &name, kind, self.wanted, self.mismatches)
    }

    /// The same tensor, read at once, for objects that must inspect its elements.
    pub fn tensor(
        &mut self,
        part: Option<&str>,
        dtype: DType,
        shape: Shape,
    ) -> Result<Option<Tensor>> {
        let name = full_name(self.object, part);
        let mut wanted = WantedTensors::default();
        let position = self.take_named(&name, None);
        let kind = (dtype, shape);
        self.file
            .want_at(position, &name, &name, kind, &mut wanted, self.mismatches)?
            .map(|later| self.file.read_wanted(&wanted)?.get(later).cloned())
            .transpose()
    }
}

/// The name of a tensor in the file.
pub(super) fn full_name<'a>(object: &'a str, part: Option<&str>) -> Cow<'a, str> {
    match part {
        Some(part) => format!("{object}/{part}").into(),
        None => object.into(),
    }
}
