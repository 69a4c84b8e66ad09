//! Names and what they are bound to.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;
use umbo::*;

use crate::failure::{Result, wrong};
use crate::handle::{Handle, Value};
use crate::outcome::Outcome;
use crate::steps::checkpoints::SavedFile;
use crate::values;

/// What a name is bound to. Copies are the same handle.
#[derive(Clone, Debug)]
pub enum Bound {
    /// A nest; a variable is one too.
    Value(Value),
    /// A strategy.
    Strategy(Arc<Handle<umbo_strategy>>),
    /// A scope, by the number of its handle.
    Scope(usize),
    /// A dataset.
    Dataset(Arc<Handle<umbo_dataset>>),
    /// A distributed dataset.
    Distributed(Arc<Handle<umbo_distributed_dataset>>),
    /// An iterator over either.
    Iterator(Arc<Handle<umbo_iterator>>),
    /// An input context: pipelines, this pipeline, replicas.
    InputContext([i32; 3]),
    /// A file of variables.
    File(Arc<SavedFile>),
    /// A host list.
    List(Vec<Bound>),
    /// The steps of an iteration and why it stopped.
    Steps(Vec<Bound>, &'static str),
    /// A text, a spec, or nothing.
    Known(Outcome),
}

/// What all levels of a case share.
#[derive(Default)]
pub struct World {
    /// Scopes that are open, and the thread that entered each.
    scopes: Mutex<Vec<(usize, ThreadId)>>,
    /// The mistake in the case that a callback met: it cannot leave the library as a status.
    mistake: Mutex<Option<String>>,
}

impl World {
    /// Notes a scope that this thread has entered.
    pub fn entered(&self, scope: usize) {
        self.scopes.lock().push((scope, thread::current().id()));
    }

    /// Forgets a scope that was left.
    pub fn left(&self, scope: usize) {
        self.scopes.lock().retain(|(open, _)| *open != scope);
    }

    /// How many scopes this thread has open.
    pub fn open_scopes(&self) -> usize {
        let current = thread::current().id();
        self.scopes
            .lock()
            .iter()
            .filter(|(_, thread)| *thread == current)
            .count()
    }

    /// Leaves scopes of this thread, innermost first, until it has `depth` open.
    pub fn leave_down_to(&self, depth: usize) {
        let current = thread::current().id();
        while self.open_scopes() > depth {
            let last = self
                .scopes
                .lock()
                .iter()
                .rposition(|(_, thread)| *thread == current);
            let Some(last) = last else { return };
            let (scope, _) = self.scopes.lock().remove(last);
            // SAFETY: the number is a handle, which the library checks.
            unsafe { umbo_scope_exit(std::ptr::without_provenance_mut(scope)) };
        }
    }

    /// Notes a mistake in the case.
    pub fn note_mistake(&self, problem: String) {
        self.mistake.lock().get_or_insert(problem);
    }

    /// The mistake that was noted, if there was one.
    pub fn take_mistake(&self) -> Option<String> {
        self.mistake.lock().take()
    }
}

/// The names of one level: the top of a case, or a body.
pub struct Environment<'a> {
    /// What all levels share.
    pub world: &'a World,
    /// In the body of values_from_function: the replica whose value is made, and how many.
    pub value_context: Option<(i32, i32)>,
    outer: Option<&'a Environment<'a>>,
    names: Mutex<HashMap<String, Bound>>,
}

impl<'a> Environment<'a> {
    /// The top level.
    pub fn top(world: &'a World) -> Environment<'a> {
        Environment {
            world,
            value_context: None,
            outer: None,
            names: Mutex::default(),
        }
    }

    /// The level of a body inside of `outer`.
    pub fn inside(outer: &'a Environment<'a>) -> Environment<'a> {
        Environment {
            outer: Some(outer),
            ..Environment::top(outer.world)
        }
    }

    /// The top level above this one.
    pub fn topmost(&self) -> &Environment<'a> {
        let mut level = self;
        while let Some(outer) = level.outer {
            level = outer;
        }
        level
    }

    /// Binds a name on this level.
    pub fn bind(&self, name: &str, bound: Bound) {
        let before = self.names.lock().insert(name.to_owned(), bound);
        // Releasing what the name was bound to may run long; nobody should wait for it here.
        drop(before);
    }

    /// What a name is bound to, here or further out. Per-replica values cannot be captured.
    pub fn look(&self, name: &str) -> Result<Bound> {
        if let Some(bound) = self.names.lock().get(name) {
            return Ok(bound.clone());
        }
        let mut level = self.outer;
        while let Some(outer) = level {
            let found = outer.names.lock().get(name).cloned();
            if let Some(bound) = found {
                if let Bound::Value(value) = &bound
                    && values::has_per_replica(value)?
                {
                    return wrong(format!(
                        "{name} is a per-replica value, which is not captured"
                    ));
                }
                return Ok(bound);
            }
            level = outer.outer;
        }
        wrong(format!("unbound name {name}"))
    }

    /// The names of this level and what they are bound to.
    pub fn into_names(self) -> BTreeMap<String, Bound> {
        self.names.into_inner().into_iter().collect()
    }

    /// The strategy with this name.
    pub fn strategy(&self, name: &str) -> Result<Arc<Handle<umbo_strategy>>> {
        match self.look(name)? {
            Bound::Strategy(strategy) => Ok(strategy),
            other => wrong(format!("{name} is no strategy but {other:?}")),
        }
    }

    /// The value with this name.
    pub fn value(&self, name: &str) -> Result<Value> {
        match self.look(name)? {
            Bound::Value(value) => Ok(value),
            other => wrong(format!("{name} is no value but {other:?}")),
        }
    }
}
