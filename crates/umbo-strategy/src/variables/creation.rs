//! Creation of variables, in a strategy's scope and inside runs.
//!
//! Inside a run of several replicas only replica 0 makes a variable. The other replicas get replica
//! 0's variable: the first of that name at their first request for the name, the second at their
//! second. They wait until replica 0 has made the variable, or until it cannot make it any more
//! before the next synchronisation: because it waits in a synchronising call or has returned.

#![expect(unsafe_code, reason = "a variable that nobody else has yet is written")]

use super::creations::Request;
pub use super::creator::NewVariable;
use super::creator::{CreatorChain, create_through};
use crate::context::{Current, creators, current, in_default_scope, mixing, require_cross_replica};
use crate::protocol::rendezvous::ReplicaPhase;
use crate::setup::central_storage::Strategy;
use crate::step::{ReplicaContext, StepRecord};
use umbo_base::error::{Error, Result};
use umbo_tensor::collectives;
use umbo_tensor::values::initial::{Distribution, DrawKey};
use umbo_tensor::values::variable::Variable;
use umbo_tensor::{DType, Shape, Tensor};

/// The source of a variable's initial value.
pub enum Initial<'a> {
    /// A copy of this tensor.
    Value(&'a Tensor),
    /// The elements that `fill` writes into a fresh tensor. It is called once.
    Fill {
        /// The variable's element type.
        dtype: DType,
        /// The variable's shape.
        shape: Shape,
        /// Writes all elements.
        fill: &'a mut dyn FnMut(&Tensor) -> Result<()>,
    },
    /// Elements from a distribution. Random ones depend on the seed, the variable's name, and how
    /// many variables of that name the strategy has drawn before.
    Drawn {
        /// The variable's element type.
        dtype: DType,
        /// The variable's shape.
        shape: Shape,
        /// The values of the elements.
        distribution: Distribution,
        /// The seed.
        seed: u64,
    },
}

/// Makes a variable on the parameter device of `strategy`; if that is `None`, of the current
/// strategy.
///
/// In replica context, with several replicas, replica 0 makes it and the others get the same one,
/// by name and by position among the variables of that name; their initial values do not count. A
/// digit after an underscore at the end of a name, or before a slash, makes no difference there.
pub fn create(
    strategy: Option<&Strategy>,
    new: NewVariable,
    initial: Initial<'_>,
) -> Result<Variable> {
    let (owner, context) = match strategy {
        Some(strategy) => {
            require_cross_replica(strategy.id())?;
            (strategy.clone(), None)
        }
        None => match current() {
            Current::Default => (Strategy::default_strategy(), None),
            Current::CrossReplica(strategy) => (strategy, None),
            Current::Replica(context) => (context.strategy().clone(), Some(context)),
        },
    };
    if !owner.is_default() && in_default_scope() {
        return Err(mixing());
    }
    let Some(context) = context else {
        return create_here(creators(&owner), &owner, new, initial);
    };
    context.check_live()?;
    let Some(step) = &context.step else {
        return create_here(creators(&owner), &owner, new, initial);
    };
    let name = canonical_name(&new.name);
    if context.replica() > 0 {
        return made_by_first_replica(&context, step, &new.name, name);
    }
    if !owner.ranks().is_alone() && !context.inline {
        return Err(Error::precondition(format!(
            "variable '{}' is made in a run that has a deadline or a token, whose callbacks are \
             not on the thread that speaks to the other ranks; make it before the run, or in one \
             without limits",
            new.name.as_str()
        )));
    }
    let mut chain = creators(&owner);
    let around = step.creations.around();
    chain.before.extend(around.before);
    chain.after.extend(around.after);
    let variable = create_here(chain, &owner, new, initial)?;
    step.creations.announce(name, variable.clone());
    Ok(variable)
}

fn create_here(
    chain: CreatorChain,
    owner: &Strategy,
    new: NewVariable,
    initial: Initial<'_>,
) -> Result<Variable> {
    let zeros = |dtype, shape| {
        let mut slab = owner.inner().variable_slab.lock();
        slab.zeros(dtype, shape, owner.parameter_device())
    };
    let name = new.name.clone();
    let mut drawn = None;
    let made = create_through(chain, owner, new, || match initial {
        Initial::Value(tensor) => {
            let fresh = zeros(tensor.dtype(), tensor.shape())?;
            // SAFETY: nobody else has the fresh tensor.
            collectives::copy_into(tensor, &mut unsafe { fresh.assume_exclusive() })?;
            Ok(fresh)
        }
        Initial::Fill { dtype, shape, fill } => {
            let fresh = zeros(dtype, shape)?;
            fill(&fresh)?;
            Ok(fresh)
        }
        Initial::Drawn {
            dtype,
            shape,
            distribution,
            seed,
        } => {
            let fresh = zeros(dtype, shape)?;
            let key = match distribution.is_random() {
                true => *drawn.insert(owner.inner().drawn_names.lock().next(&name)),
                false => DrawKey::first(&name),
            };
            // SAFETY: nobody else has the fresh tensor.
            distribution.fill(&mut unsafe { fresh.assume_exclusive() }, seed, key)?;
            Ok(fresh)
        }
    });
    made.map_err(|error| {
        if let Some(key) = drawn {
            owner.inner().drawn_names.lock().give_back(key);
        }
        owner.fail_to_make(name.as_str(), error)
    })
}

/// The name without the digits that distinguish variables of one name: `_` and one digit, at the
/// end or before a slash.
fn canonical_name(name: &str) -> String {
    let parts: Vec<&str> = name
        .split('/')
        .map(|part| match part.as_bytes() {
            [.., b'_', digit] if digit.is_ascii_digit() => &part[..part.len() - 2],
            _ => part,
        })
        .collect();
    parts.join("/")
}

/// The variable that replica 0 makes under this name, at the position of this request among those
/// of the replica for the name.
fn made_by_first_replica(
    context: &ReplicaContext,
    step: &StepRecord,
    full_name: &str,
    name: String,
) -> Result<Variable> {
    let stopped = || step.rendezvous.phase(0) != ReplicaPhase::Computing;
    let replica = context.replica();
    match step
        .creations
        .wait(replica, name, stopped, || context.is_cancelled())
    {
        Request::Made(variable) => Ok(variable),
        Request::Interrupted => {
            context.check_live()?;
            Err(Error::Cancelled(format!(
                "stopped while waiting for replica 0 to make variable '{full_name}'"
            )))
        }
        Request::Missing { position } => Err(Error::precondition(format!(
            "mismatching name on device {}: replica {replica} asks for a variable '{full_name}', \
             number {} of this name, which replica 0 has not made; all replicas must make the \
             same variables in the same order",
            context.strategy().replica_devices()[replica],
            position + 1
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::canonical_name;

    #[test]
    fn names_lose_their_uniquifying_digits() {
        for (name, canonical) in [
            ("Variable", "Variable"),
            ("v_1", "v"),
            ("v_12", "v_12"),
            ("layer_1/kernel_2", "layer/kernel"),
            ("layer_1x/kernel", "layer_1x/kernel"),
            ("_3", ""),
            ("gr\u{f6}\u{df}e_1", "gr\u{f6}\u{df}e"),
        ] {
            assert_eq!(canonical_name(name), canonical);
        }
    }
}
