//! What an object does to be in a checkpoint.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::checkpoint::mismatch::Mismatch;
use crate::checkpoint::numbers::{read_count, read_number};
use crate::checkpoint::reader::CheckpointFile;
use crate::checkpoint::snapshot::SavedSharding;
pub use crate::checkpoint::wanted::Later;
use crate::checkpoint::wanted::{Values, WantedTensors};
use crate::error::{Error, Result};
use crate::optimizer::Gradients;
use crate::strategy::quiet::Changing;
use crate::tensor::{DType, Shape, Tensor};
use crate::values::variable::Variable;

/// An object whose state can be saved and restored.
///
/// What steps change is saved and put in while no step of the object's strategy is in progress and none
/// can begin.
pub trait Saveable: Send + Sync {
    /// What it is, in one or two words; the file says it, too.
    fn kind(&self) -> &'static str;

    /// The id of the strategy whose steps change it; `None` if steps do not.
    fn strategy(&self) -> Option<u64> {
        None
    }

    /// The variables that it keeps something for, and by whose names it saves that.
    fn variables(&self) -> Vec<Variable> {
        Vec::new()
    }

    /// Whether saving or restoring it may call the caller's functions, which may wait for steps. Then
    /// both happen while steps can be taken.
    fn may_call_back(&self) -> bool {
        false
    }

    /// Whose contributions it has applied: what these hold belongs to the state, too.
    fn applied(&self) -> Vec<Arc<Gradients>> {
        Vec::new()
    }

    /// Copies the state to `record`, or, where [`ObjectRecord::shares`] says so, gives it the state itself.
    fn save(&self, names: &Names, record: &mut ObjectRecord) -> Result<()>;

    /// Checks all that is to be restored, reads it or says what is to be read, and does everything that can
    /// fail. All that differs is noted in `saved`; if anything does, in any object, nothing changes anywhere. None:
    /// nothing can be put in, and why was noted.
    fn prepare<'a>(&'a self, names: &Names, saved: &mut ObjectReader<'_>) -> Ready<'a>;
}

/// What [`Saveable::prepare`] returns.
pub type Ready<'a> = Result<Option<Box<dyn PreparedRestore + 'a>>>;

/// A state that was read, and that is about to be put in.
pub trait PreparedRestore {
    /// What can only fail by being done, such as going to a place in a dataset. INVALID_ARGUMENT is a
    /// difference; then the object is as it was.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// Undoes what was begun.
    fn undo(&mut self) -> Result<()> {
        Ok(())
    }

    /// Puts it in. Fails by a defect of this library alone.
    fn commit(self: Box<Self>, changes: &Changes<'_>) -> Result<()>;
}

/// What is all done at once is a function that puts the state in.
impl<F: FnOnce(&Changes<'_>) -> Result<()>> PreparedRestore for F {
    fn commit(self: Box<Self>, changes: &Changes<'_>) -> Result<()> {
        self(changes)
    }
}

/// The right to change variables, of the checkpoint's strategy and of the default one, and what was read for it.
pub struct Changes<'a> {
    pub(super) values: &'a Values,
    pub(super) own: &'a Changing<'a>,
    pub(super) default: Option<&'a Changing<'a>>,
    pub(super) strategy: u64,
}

impl Changes<'_> {
    /// What was read.
    pub fn value(&self, later: Later) -> Result<&Tensor> {
        self.values.get(later)
    }

    /// Makes `value`, of its dtype and shape, the committed value of `variable`.
    pub fn replace(&self, variable: &Variable, value: &Tensor) -> Result<()> {
        match self.default {
            Some(default) if variable.spec().strategy != self.strategy => {
                default.replace(variable, value)
            }
            _ => self.own.replace(variable, value),
        }
    }
}

/// By which names variables are known in a checkpoint: those by which they were added, and for others
/// their own.
#[derive(Default)]
pub struct Names {
    of: HashMap<usize, String>,
    variables: HashMap<String, Variable>,
}

impl Names {
    /// Gives `variable` a name, unless it has one. Fails if another variable has it.
    pub(super) fn add(&mut self, variable: &Variable, name: &str) -> Result<()> {
        if self.of.contains_key(&variable.key()) {
            return Ok(());
        }
        if let Some(other) = self.variables.get(name) {
            let problem = format!(
                "two variables would be saved as '{name}': {other:?} and another {variable:?}; add \
                 one of them to the checkpoint by another name"
            );
            return Err(Error::invalid("checkpoint", problem));
        }
        self.of.insert(variable.key(), name.to_owned());
        self.variables.insert(name.to_owned(), variable.clone());
        Ok(())
    }

    /// The name of a variable.
    pub fn name(&self, variable: &Variable) -> Result<&str> {
        self.of
            .get(&variable.key())
            .map(String::as_str)
            .ok_or_else(|| Error::Internal(format!("{variable:?} has no name in the checkpoint")))
    }

    /// The variable with this name.
    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.get(name)
    }
}

/// What is saved of one object: tensors by the names of the parts, and what is not a tensor.
#[derive(Default)]
pub struct ObjectRecord {
    pub(super) tensors: Vec<(Option<String>, Tensor)>,
    /// By the names of parts, how several ranks divide them.
    pub(super) divided: Vec<(String, SavedSharding)>,
    pub(super) properties: Map<String, Json>,
    /// What is probably not as the program means it.
    pub(super) doubt: Option<String>,
    /// The strategy that takes no step before the record is dropped.
    pub(super) quiet: Option<u64>,
}

impl ObjectRecord {
    /// Whether tensors that steps of this strategy alone change need not be copied: as long as the record's
    /// tensors are used there is none.
    pub fn shares(&self, strategy: u64) -> bool {
        self.quiet == Some(strategy)
    }

    /// Whether it is written and dropped before the call that saves returns.
    pub fn is_written_at_once(&self) -> bool {
        self.quiet.is_some()
    }

    /// A tensor that is the object; it is saved by the object's name. Nobody changes it any more.
    pub fn whole(&mut self, tensor: Tensor) {
        self.tensors.push((None, tensor));
    }

    /// A tensor that is a part of the object. Nobody changes it any more.
    pub fn part(&mut self, name: impl Into<String>, tensor: Tensor) {
        self.tensors.push((Some(name.into()), tensor));
    }

    /// The same, of a tensor of the shape of `variable` that is divided as that is: this rank's part of it,
    /// in a row, or all of it if no ranks divide it.
    pub fn part_like(&mut self, name: String, variable: &Variable, tensor: Tensor) {
        if let Some(sharding) = variable.sharding() {
            let (shape, boundaries) = (variable.shape(), sharding.boundaries().to_vec());
            self.divided.push((name.clone(), SavedSharding { shape, boundaries }));
        }
        self.part(name, tensor);
    }

    /// Something that is not a tensor. Use [`number`](crate::checkpoint::numbers::number) for floating-point numbers.
    pub fn property(&mut self, name: &str, value: impl Into<Json>) {
        self.properties.insert(name.to_owned(), value.into());
    }
}

/// What a file has of one object, and where differences are noted.
pub struct ObjectReader<'a> {
    pub(super) file: &'a CheckpointFile,
    pub(super) object: &'a str,
    pub(super) properties: &'a Map<String, Json>,
    pub(super) taken: &'a mut HashSet<String>,
    pub(super) wanted: &'a mut WantedTensors,
    pub(super) mismatches: &'a mut Vec<Mismatch>,
}

impl ObjectReader<'_> {
    /// Notes a difference.
    pub fn differs(&mut self, problem: impl Into<String>) {
        let object = self.object.to_owned();
        self.mismatches.push(Mismatch::Other { object, problem: problem.into() });
    }

    /// A property, of whatever type.
    pub fn property(&mut self, name: &str) -> Option<&Json> {
        if !self.properties.contains_key(name) {
            self.differs(format!("the file does not say its {name}"));
        }
        self.properties.get(name)
    }

    /// A property as `read` understands it.
    pub fn read_property<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Json) -> Option<T>,
    ) -> Option<T> {
        let found = self.property(name)?;
        let (value, text) = (read(found), found.to_string());
        if value.is_none() {
            self.differs(format!("its {name} in the file makes no sense: {text}"));
        }
        value
    }

    /// A property that is a number.
    pub fn number(&mut self, name: &str) -> Option<f64> {
        self.read_property(name, read_number)
    }

    /// A property that is a whole number.
    pub fn count(&mut self, name: &str) -> Option<u64> {
        self.read_property(name, read_count)
    }

    /// A property that is an object of others.
    pub fn members(&mut self, name: &str) -> Option<BTreeMap<String, Json>> {
        self.read_property(name, |json| {
            let members = json.as_object()?;
            Some(members.iter().map(|(name, json)| (name.clone(), json.clone())).collect())
        })
    }

    /// Notes that a tensor of the file is no surplus: what it belongs to was mentioned.
    pub fn take(&mut self, part: &str) {
        self.taken.insert(full_name(self.object, Some(part)));
    }

    /// Whether the file has this part of the object.
    pub fn has_part(&self, part: &str) -> bool {
        self.file.info(&full_name(self.object, Some(part))).is_some()
    }

    /// How many rows the file's tensor of this part has.
    pub fn rows(&self, part: &str) -> Option<usize> {
        self.file.info(&full_name(self.object, Some(part)))?.1.first().copied()
    }

    /// Of a tensor of the dtype and shape of `variable`, what this rank updates of it: its part, in a row, or
    /// all of it if no ranks divide it. None as for [`ObjectReader::tensor`].
    pub fn part_like(&mut self, part: &str, variable: &Variable) -> Result<Option<Later>> {
        let (dtype, shape) = (variable.dtype(), variable.shape());
        let Some(sharding) = variable.sharding() else {
            return self.later(Some(part), dtype, shape);
        };
        let name = full_name(self.object, Some(part));
        let own = sharding.own();
        let tensor = self.file.read_part_expecting(&name, (dtype, shape), &own, self.mismatches)?;
        self.taken.insert(name);
        Ok(tensor.map(|tensor| self.wanted.add_read(tensor)))
    }

    /// The tensor that is the object, or this part of it, of this dtype and shape, which is read once it is known
    /// that all objects fit. None if the file has none or another one, which is noted.
    pub fn later(
        &mut self,
        part: Option<&str>,
        dtype: DType,
        shape: Shape,
    ) -> Result<Option<Later>> {
        let name = full_name(self.object, part);
        let names = (&name[..], &name[..]);
        let later = self.file.want(names, dtype, shape, self.wanted, self.mismatches)?;
        self.taken.insert(name);
        Ok(later)
    }

    /// The same, read at once, for objects that have to see its elements.
    pub fn tensor(
        &mut self,
        part: Option<&str>,
        dtype: DType,
        shape: Shape,
    ) -> Result<Option<Tensor>> {
        let (name, mut wanted) = (full_name(self.object, part), WantedTensors::default());
        let names = (&name[..], &name[..]);
        let later = self.file.want(names, dtype, shape, &mut wanted, self.mismatches)?;
        self.taken.insert(name);
        later.map(|later| self.file.read_wanted(&wanted)?.get(later).cloned()).transpose()
    }
}

/// The name of a tensor in the file.
pub(super) fn full_name(object: &str, part: Option<&str>) -> String {
    match part {
        Some(part) => format!("{object}/{part}"),
        None => object.to_owned(),
    }
}
