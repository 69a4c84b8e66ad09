//! For authors of custom optimizers and training loops: updates of variables in cross-replica
//! context, and values made for each replica.

use std::slice;

use crate::context::{Current, current, require_cross_replica};
use crate::setup::central_storage::Strategy;
use crate::step::merge::{MergeCall, Operation};
use crate::variables;
use umbo_base::error::Result;
use umbo_tensor::values::Value;
use umbo_tensor::values::variable::Variable;

/// For which replica a value is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueContext {
    /// The replica's id among the replicas that run in sync.
    pub replica_id_in_sync_group: usize,
    /// The number of replicas that run in sync.
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
        function: impl FnOnce(&Variable, Option<Value>) -> Result<Option<Value>> + Send + 'static,
    ) -> Result<Option<Value>> {
        if let Current::Replica(context) = current()
            && context.strategy().is_same(self)
        {
            let operation = Operation::writing(slice::from_ref(variable), "update");
            let target = variable.clone();
            let merge = move |strategy: &Strategy, calls: &mut [&mut MergeCall]| {
                let first = calls.first().and_then(|call| call.arguments.as_ref());
                strategy.update_here(&target, first, function)
            };
            return context.synchronize(operation, arguments.cloned(), Box::new(merge));
        }
        require_cross_replica(self.id())?;
        self.update_here(variable, arguments, function)
    }

    fn update_here(
        &self,
        variable: &Variable,
        arguments: Option<&Value>,
        function: impl FnOnce(&Variable, Option<Value>) -> Result<Option<Value>>,
    ) -> Result<Option<Value>> {
        let arguments = arguments
            .map(|arguments| arguments.component(0))
            .transpose()?;
        self.central_step(|| {
            variables::check_owner(self, "variable", variable)?;
            function(variable, arguments)
        })
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
        let first = self.ranks().first_replica();
        let num_replicas_in_sync = self.num_replicas_in_sync();
        let parts: Result<Vec<Value>> = (first..first + self.num_replicas())
            .map(|replica_id_in_sync_group| {
                function(ValueContext {
                    replica_id_in_sync_group,
                    num_replicas_in_sync,
                })
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
