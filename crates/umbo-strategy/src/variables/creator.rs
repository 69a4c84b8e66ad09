//! Variable creators: the caller's functions that see each new variable before it is made. They may
//! change its description, or return another variable instead.
//!
//! Creators are called from the innermost scope outwards. A strategy's own creator, which places
//! variables on the parameter device, stands where the strategy's scope was entered: creators of
//! scopes inside of it run before, creators of scopes around it run after and see the device.

use std::sync::Arc;

use crate::setup::central_storage::Strategy;
use parking_lot::Mutex;
use umbo_base::error::Result;
use umbo_base::text::Text;
use umbo_device::DeviceId;
use umbo_tensor::Tensor;
use umbo_tensor::collectives;
use umbo_tensor::values::variable::{Aggregation, Synchronization, Variable, VariableSpec};

/// A creator. It returns the variable, usually what [`VariableRequest::next`] gave; if it returns
/// none, the request, as it now is, continues by itself.
pub type VariableCreator = dyn Fn(&VariableRequest) -> Result<Option<Variable>> + Send + Sync;

/// The creators that count in one place, in calling order.
#[derive(Clone, Default)]
pub(crate) struct CreatorChain {
    /// The creators that run before the strategy's own creator.
    pub before: Vec<Arc<VariableCreator>>,
    /// The creators that run after it.
    pub after: Vec<Arc<VariableCreator>>,
}

impl CreatorChain {
    pub fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }
}

/// The description of a new variable.
#[derive(Clone, Debug)]
pub struct NewVariable {
    /// The name; names need not differ.
    pub name: Text,
    /// Whether an optimizer should change it; `None`: yes, unless it is synchronised on reading.
    pub trainable: Option<bool>,
    /// Without effect on storage.
    pub synchronization: Synchronization,
    /// How values that replicas assign are combined.
    pub aggregation: Aggregation,
}

/// A variable that is about to be made. Cloning makes another reference to the same request.
#[derive(Clone)]
pub struct VariableRequest {
    shared: Arc<SharedRequest>,
    /// The link of the chain that has the request.
    position: usize,
}

/// A link of the chain that a request follows.
enum CreatorLink {
    /// A creator of the program or of a library.
    Creator(Arc<VariableCreator>),
    /// The strategy, which chooses the device.
    Strategy,
}

struct SharedRequest {
    owner: Strategy,
    links: Vec<CreatorLink>,
    wanted: Mutex<WantedVariable>,
    /// The variables that `next` made, for each link.
    made: Mutex<Vec<Option<Variable>>>,
}

struct WantedVariable {
    new: NewVariable,
    initial: Tensor,
    device: Option<DeviceId>,
}

impl VariableRequest {
    /// Continues with the request as it now is: to the next creator, in the end to the variable
    /// itself. Each call makes a variable.
    pub fn next(&self) -> Result<Variable> {
        let variable = self.shared.follow(self.position + 1)?;
        self.shared.made.lock()[self.position] = Some(variable.clone());
        Ok(variable)
    }

    /// The description of the variable.
    pub fn description(&self) -> NewVariable {
        self.shared.wanted.lock().new.clone()
    }

    /// The name that the variable is to have.
    pub fn name(&self) -> Text {
        self.shared.wanted.lock().new.name.clone()
    }

    /// Changes what the variable is to be.
    pub fn describe(&self, change: impl FnOnce(&mut NewVariable)) {
        change(&mut self.shared.wanted.lock().new);
    }

    /// The initial value: its dtype and shape become the variable's.
    pub fn initial_value(&self) -> Tensor {
        self.shared.wanted.lock().initial.clone()
    }

    /// Sets another initial value, of any dtype and shape.
    pub fn set_initial_value(&self, value: Tensor) {
        self.shared.wanted.lock().initial = value;
    }

    /// The device that the variable will lie on, once the strategy's own creator has chosen it.
    pub fn device(&self) -> Option<DeviceId> {
        self.shared.wanted.lock().device
    }
}

impl SharedRequest {
    fn follow(self: &Arc<Self>, position: usize) -> Result<Variable> {
        match self.links.get(position) {
            Some(CreatorLink::Creator(creator)) => {
                let request = VariableRequest {
                    shared: Arc::clone(self),
                    position,
                };
                if let Some(variable) = creator(&request)? {
                    return Ok(variable);
                }
                let made = self.made.lock()[position].take();
                made.map_or_else(|| self.follow(position + 1), Ok)
            }
            Some(CreatorLink::Strategy) => {
                {
                    let mut wanted = self.wanted.lock();
                    wanted.device = Some(self.owner.parameter_device());
                    let trainable = is_trainable(&wanted.new);
                    wanted.new.trainable = Some(trainable);
                }
                self.follow(position + 1)
            }
            None => {
                let (new, initial) = {
                    let wanted = self.wanted.lock();
                    (wanted.new.clone(), wanted.initial.clone())
                };
                let value = collectives::copy_to(&initial, self.owner.parameter_device())?;
                make(&self.owner, new, value)
            }
        }
    }
}

/// Makes the variable, after all creators of `chain`. `initial` makes a fresh tensor on the
/// parameter device.
pub(crate) fn create_through(
    chain: CreatorChain,
    owner: &Strategy,
    new: NewVariable,
    initial: impl FnOnce() -> Result<Tensor>,
) -> Result<Variable> {
    let initial = initial()?;
    if chain.is_empty() {
        return make(owner, new, initial);
    }
    let before = chain.before.into_iter().map(CreatorLink::Creator);
    let after = chain.after.into_iter().map(CreatorLink::Creator);
    let links: Vec<CreatorLink> = before.chain([CreatorLink::Strategy]).chain(after).collect();
    let shared = Arc::new(SharedRequest {
        owner: owner.clone(),
        made: Mutex::new(vec![None; links.len()]),
        links,
        wanted: Mutex::new(WantedVariable {
            new,
            initial,
            device: None,
        }),
    });
    shared.follow(0)
}

impl NewVariable {
    /// Refuses a variable without a name.
    pub(crate) fn check_name(&self) -> Result<()> {
        if self.name.is_empty() {
            return Err(invalid!(
                "name",
                "is empty; a variable has a name, by which it is drawn, reported and saved"
            ));
        }
        Ok(())
    }
}

/// The variable itself; `value` is its own. All ranks make it, with rank 0's value.
pub(crate) fn make(owner: &Strategy, new: NewVariable, value: Tensor) -> Result<Variable> {
    new.check_name()?;
    let sharding = owner.ranks().same_initial(new.name.as_str(), &value)?;
    let spec = VariableSpec {
        trainable: is_trainable(&new),
        name: new.name,
        aggregation: new.aggregation,
        strategy: owner.id(),
    };
    let variable = Variable::divided(spec, value, owner.keeper(), sharding);
    if !owner.is_default() {
        owner.record_made(&variable);
    }
    Ok(variable)
}

fn is_trainable(new: &NewVariable) -> bool {
    new.trainable
        .unwrap_or(new.synchronization != Synchronization::OnRead)
}
