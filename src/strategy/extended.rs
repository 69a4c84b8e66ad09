//! What authors of optimizers and of training loops of their own need: updates of variables in
//! cross-replica context, colocation, values made replica by replica.

use super::central_storage::Strategy;
use super::context::{Current, current, mixing, require_cross_replica};
use super::operation::Operation;
use super::step::ReplicaContext;
use super::variables;
use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use crate::values::Value;
use crate::values::variable::Variable;

/// How the result of an update comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// As the function returned it.
    #[default]
    Grouped,
    /// Each leaf as a tuple of one item: one for each device that holds a copy of the variable.
    Ungrouped,
}

impl Grouping {
    fn apply(self, value: Option<Value>) -> Result<Option<Value>> {
        match (self, value) {
            (Grouping::Ungrouped, Some(value)) => {
                let tuples = value.map_leaves(&mut |leaf| Value::tuple(vec![leaf.clone()]))?;
                tuples.within_limits("result").map(Some)
            }
            (_, value) => Ok(value),
        }
    }
}

/// For which replica a value is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueContext {
    /// The replica's id among the replicas that run in sync.
    pub replica_id_in_sync_group: usize,
    /// How many run in sync.
    pub num_replicas_in_sync: usize,
}

impl Strategy {
    /// Calls `function` once with the stored variable in cross-replica context. What it assigns
    /// becomes central state if it succeeds, and is dropped if it fails. Of per-replica values in
    /// the arguments the function gets the first component.
    ///
    /// In replica context it is a synchronising call that all replicas make: replica 0's function
    /// runs once, with replica 0's arguments, and each replica gets its part of the result.
    pub fn update(
        &self,
        variable: &Variable,
        arguments: Option<&Value>,
        grouping: Grouping,
        function: impl FnOnce(&Variable, Option<Value>) -> Result<Option<Value>> + Send + 'static,
    ) -> Result<Option<Value>> {
        if let Current::Replica(context) = current()
            && context.strategy().is_same(self)
        {
            return update_in_replica(&context, variable, arguments, grouping, function);
        }
        require_cross_replica(self)?;
        self.update_here("variable", variable, arguments, grouping, function)
    }

    fn update_here(
        &self,
        argument: &'static str,
        variable: &Variable,
        arguments: Option<&Value>,
        grouping: Grouping,
        function: impl FnOnce(&Variable, Option<Value>) -> Result<Option<Value>>,
    ) -> Result<Option<Value>> {
        let arguments = arguments.map(|arguments| arguments.component(0)).transpose()?;
        self.central_step(|| {
            variables::check_owner(self, argument, variable)?;
            grouping.apply(function(variable, arguments)?)
        })
    }

    /// As [`Strategy::update`], for state that is not the variable itself but is kept where the
    /// variable is, such as an optimizer's step count. In cross-replica context only.
    pub fn update_non_slot(
        &self,
        colocate_with: &Variable,
        arguments: Option<&Value>,
        grouping: Grouping,
        function: impl FnOnce(&Variable, Option<Value>) -> Result<Option<Value>>,
    ) -> Result<Option<Value>> {
        require_cross_replica(self)?;
        self.update_here("colocate_with", colocate_with, arguments, grouping, function)
    }

    /// The variable beside which state of all of `variables` together is kept: the one whose name
    /// comes first.
    pub fn non_slot_devices<'a>(&self, variables: &'a [Variable]) -> Result<&'a Variable> {
        for variable in variables {
            variables::check_owner(self, "variables", variable)?;
        }
        variables
            .iter()
            .min_by(|a, b| a.name().cmp(b.name()))
            .ok_or_else(|| Error::invalid("variables", "none; give one variable or more"))
    }

    /// Calls `body` with new variables placed on the device of `variable`, which must be one of
    /// this strategy. All variables of a strategy lie on its parameter device, so there is nothing
    /// to change for `body`.
    pub fn colocate_vars_with<R>(
        &self,
        variable: &Variable,
        body: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        match current() {
            Current::CrossReplica(own) if own.is_same(self) => {}
            Current::Replica(context) if context.strategy().is_same(self) => {}
            Current::Default => {
                return Err(Error::precondition(
                    "needs to be inside of the strategy's scope; enter that first",
                ));
            }
            _ => return Err(mixing()),
        }
        if !variables::created_in_scope(self, variable) {
            return Err(Error::invalid(
                "variable",
                format!("'{}' was not made in the scope of this strategy", variable.name()),
            ));
        }
        body()
    }

    /// The value that `variable` has now; see [`variables::read`].
    pub fn read_variable(&self, variable: &Variable) -> Result<Tensor> {
        variables::read(variable)
    }

    /// The compute devices, each once. The default strategy was given none.
    pub fn worker_devices(&self) -> Result<&[DeviceId]> {
        self.own_devices()?;
        Ok(self.compute_devices())
    }

    /// The devices that hold variables: one. The default strategy was given
    /// none.
    pub fn parameter_devices(&self) -> Result<[DeviceId; 1]> {
        self.own_devices()?;
        Ok([self.parameter_device()])
    }

    fn own_devices(&self) -> Result<()> {
        if self.is_default() {
            return Err(Error::precondition("strategy: the default strategy was given no devices"));
        }
        Ok(())
    }

    /// Calls `function` for each replica, in order, on this thread and in this thread's context,
    /// and makes per-replica values of the results, leaf by leaf. Leaves are always wrapped, also
    /// with one replica; the default strategy wraps nothing. Components stay where they are.
    ///
    /// Fails with what `function` fails with, and with INVALID_ARGUMENT if the structures of the
    /// results differ.
    pub fn values_from_function(
        &self,
        function: &mut dyn FnMut(ValueContext) -> Result<Value>,
    ) -> Result<Value> {
        let (first, num_replicas_in_sync) =
            (self.first_replica_in_sync(), self.num_replicas_in_sync());
        let parts: Result<Vec<Value>> = (first..first + self.num_replicas())
            .map(|replica_id_in_sync_group| {
                function(ValueContext { replica_id_in_sync_group, num_replicas_in_sync })
            })
            .collect();
        let mut parts = parts?;
        match parts.pop() {
            Some(alone) if self.is_default() => Ok(alone),
            last => {
                parts.extend(last);
                Value::merge(&parts, true, "value_fn")
            }
        }
    }
}

fn update_in_replica(
    context: &ReplicaContext,
    variable: &Variable,
    arguments: Option<&Value>,
    grouping: Grouping,
    function: impl FnOnce(&Variable, Option<Value>) -> Result<Option<Value>> + Send + 'static,
) -> Result<Option<Value>> {
    let operation = Operation::Assign {
        variable: variable.key(),
        name: variable.name().to_string(),
        kind: "update",
    };
    let target = variable.clone();
    context.synchronize(
        operation,
        arguments.cloned(),
        Box::new(move |strategy, parts| {
            let first = parts.first().and_then(Option::as_ref);
            let result = strategy.update_here("variable", &target, first, grouping, function)?;
            (0..parts.len())
                .map(|replica| result.as_ref().map(|value| value.component(replica)).transpose())
                .collect()
        }),
    )
}
