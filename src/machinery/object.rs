//! The types of handles: the opaque C structs, their kinds, and the objects behind them.

use std::sync::Arc;

use super::checked_step::CheckedStep;
use super::constants::invalid;
use umbo_core::checkpoint::{Checkpoint, Manager};
use umbo_core::cluster::communicator::Communicator;
use umbo_core::cluster::resolver::ClusterResolver;
use umbo_core::error::Result;
use umbo_core::input::{Dataset, DistributedDataset, ElementSpec, PassIterator};
use umbo_core::metrics::Metrics;
use umbo_core::optimizer::{Gradients, Optimizer};
use umbo_core::strategy::context::Scope;
use umbo_core::strategy::step::cancellation::Cancellation;
use umbo_core::strategy::variables::creator::VariableRequest;
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::Tensor;
use umbo_core::training::Trainer;
use umbo_core::values::Value;
use umbo_core::values::variable::Variable;

/// A type of handle.
pub type umbo_handle_type = i32;

/// Handles of all types together.
pub const UMBO_HANDLE_ANY: umbo_handle_type = 0;
/// `umbo_tensor`.
pub const UMBO_HANDLE_TENSOR: umbo_handle_type = 101;
/// `umbo_value`.
pub const UMBO_HANDLE_VALUE: umbo_handle_type = 102;
/// `umbo_strategy`.
pub const UMBO_HANDLE_STRATEGY: umbo_handle_type = 103;
/// `umbo_scope`.
pub const UMBO_HANDLE_SCOPE: umbo_handle_type = 104;
/// `umbo_replica_context`.
pub const UMBO_HANDLE_REPLICA_CONTEXT: umbo_handle_type = 105;
/// `umbo_variable`.
pub const UMBO_HANDLE_VARIABLE: umbo_handle_type = 106;
/// `umbo_dataset`.
pub const UMBO_HANDLE_DATASET: umbo_handle_type = 107;
/// `umbo_distributed_dataset`.
pub const UMBO_HANDLE_DISTRIBUTED_DATASET: umbo_handle_type = 108;
/// `umbo_iterator`.
pub const UMBO_HANDLE_ITERATOR: umbo_handle_type = 109;
/// `umbo_gradients`.
pub const UMBO_HANDLE_GRADIENTS: umbo_handle_type = 110;
/// `umbo_optimizer`.
pub const UMBO_HANDLE_OPTIMIZER: umbo_handle_type = 111;
/// `umbo_cancellation`.
pub const UMBO_HANDLE_CANCELLATION: umbo_handle_type = 112;
/// `umbo_cluster_resolver`.
pub const UMBO_HANDLE_CLUSTER_RESOLVER: umbo_handle_type = 113;
/// `umbo_variable_request`.
pub const UMBO_HANDLE_VARIABLE_REQUEST: umbo_handle_type = 114;
/// `umbo_element_spec`.
pub const UMBO_HANDLE_ELEMENT_SPEC: umbo_handle_type = 115;
/// `umbo_equivalence`.
pub const UMBO_HANDLE_EQUIVALENCE: umbo_handle_type = 116;
/// `umbo_metrics`.
pub const UMBO_HANDLE_METRICS: umbo_handle_type = 117;
/// `umbo_checkpoint`.
pub const UMBO_HANDLE_CHECKPOINT: umbo_handle_type = 118;
/// `umbo_checkpoint_manager`.
pub const UMBO_HANDLE_CHECKPOINT_MANAGER: umbo_handle_type = 119;
/// `umbo_communicator`.
pub const UMBO_HANDLE_COMMUNICATOR: umbo_handle_type = 120;
/// `umbo_trainer`.
pub const UMBO_HANDLE_TRAINER: umbo_handle_type = 121;

/// The kind that a C constant selects; none selects all.
pub(crate) fn kind_selection(code: umbo_handle_type) -> Result<Option<Kind>> {
    if code == UMBO_HANDLE_ANY {
        return Ok(None);
    }
    let kind = u64::try_from(code).ok().and_then(Kind::from_code);
    kind.map(Some).ok_or_else(|| {
        let valid = [
            ("UMBO_HANDLE_ANY", UMBO_HANDLE_ANY),
            ("UMBO_HANDLE_TENSOR", UMBO_HANDLE_TENSOR),
            ("UMBO_HANDLE_TRAINER", UMBO_HANDLE_TRAINER),
        ];
        invalid(code, "type", &valid)
    })
}

/// The kind that a C constant says, of those whose handles are retained and released. A scope ends
/// with umbo_scope_exit(), and what is only ever lent has no handle to release.
pub(crate) fn owned_kind(code: umbo_handle_type) -> Result<Kind> {
    kind_selection(code)?
        .filter(|kind| {
            !matches!(
                kind,
                Kind::Scope | Kind::ReplicaContext | Kind::VariableRequest
            )
        })
        .ok_or_else(|| {
            invalid!(
                "type",
                "{code}; a type of handles that are released is expected, so neither \
                 UMBO_HANDLE_ANY (0) nor _SCOPE (104), _REPLICA_CONTEXT (105) or \
                 _VARIABLE_REQUEST (114)"
            )
        })
}

/// A C struct that stands for objects of one kind. There are no instances; pointers to it are
/// handles.
pub(crate) trait Opaque: Sized {
    /// The object that a handle refers to. Cloning makes another reference to the same thing.
    type Object: Clone + Send + Sync;
    /// The kind of its handles.
    const KIND: Kind;
    /// The object as it lies in the table.
    fn wrap(object: Self::Object) -> Object;
    /// The object, if the entry is of this kind.
    fn of(entry: &Object) -> Option<&Self::Object>;
    /// The object, if the entry is of this kind.
    fn unwrap(entry: Object) -> Option<Self::Object>;
}

/// Lists the objects behind handles: `CONSTANT = Kind, "its name": opaque struct => object;`. Kept
/// small: the table holds them in place.
macro_rules! objects {
    ($($constant:ident = $kind:ident, $name:literal: $opaque:ident => $object:ty;)*) => {
        /// The kind of an object, which is the first byte of its handles. Never zero, nor 255, so
        /// that no handle looks like an address that a processor would accept.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the names say all")]
        pub enum Kind {
            $($kind = $constant as u8,)*
        }

        impl Kind {
            /// The kind with this number, if there is one.
            pub(crate) fn from_code(code: u64) -> Option<Kind> {
                [$(Kind::$kind),*].into_iter().find(|kind| *kind as u64 == code)
            }

            /// The kind's name with its article, such as `a tensor`.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }

            /// The usual name of parameters of this kind, such as `tensor`.
            pub(crate) fn parameter(self) -> &'static str {
                match self {
                    $(Kind::$kind => const { stringify!($opaque).split_at("umbo_".len()).1 },)*
                }
            }
        }

        /// The content of a slot of the handle table.
        #[derive(Clone)]
        pub(crate) enum Object {
            $($kind($object),)*
        }

        impl Object {
            /// Its kind.
            pub(crate) fn kind(&self) -> Kind {
                match self {
                    $(Object::$kind(_) => Kind::$kind,)*
                }
            }
        }

        $(
            impl Opaque for $opaque {
                type Object = $object;
                const KIND: Kind = Kind::$kind;

                fn wrap(object: $object) -> Object {
                    Object::$kind(object)
                }

                fn of(entry: &Object) -> Option<&$object> {
                    match entry {
                        Object::$kind(object) => Some(object),
                        _ => None,
                    }
                }

                fn unwrap(entry: Object) -> Option<$object> {
                    match entry {
                        Object::$kind(object) => Some(object),
                        _ => None,
                    }
                }
            }
        )*
    };
}

objects! {
    UMBO_HANDLE_TENSOR = Tensor, "a tensor": umbo_tensor => Tensor;
    UMBO_HANDLE_VALUE = Value, "a value": umbo_value => Value;
    UMBO_HANDLE_STRATEGY = Strategy, "a strategy": umbo_strategy => Strategy;
    UMBO_HANDLE_SCOPE = Scope, "a scope": umbo_scope => Scope;
    UMBO_HANDLE_REPLICA_CONTEXT = ReplicaContext, "a replica context":
        umbo_replica_context => ReplicaContext;
    UMBO_HANDLE_VARIABLE = Variable, "a variable": umbo_variable => Variable;
    UMBO_HANDLE_DATASET = Dataset, "a dataset": umbo_dataset => Dataset;
    UMBO_HANDLE_DISTRIBUTED_DATASET = DistributedDataset, "a distributed dataset":
        umbo_distributed_dataset => Arc<DistributedDataset>;
    UMBO_HANDLE_ITERATOR = Iterator, "an iterator": umbo_iterator => Arc<PassIterator>;
    UMBO_HANDLE_GRADIENTS = Gradients, "a gradients": umbo_gradients => Arc<Gradients>;
    UMBO_HANDLE_OPTIMIZER = Optimizer, "an optimizer": umbo_optimizer => Arc<Optimizer>;
    UMBO_HANDLE_CANCELLATION = Cancellation, "a cancellation": umbo_cancellation => Cancellation;
    UMBO_HANDLE_CLUSTER_RESOLVER = ClusterResolver, "a cluster resolver":
        umbo_cluster_resolver => Arc<ClusterResolver>;
    UMBO_HANDLE_VARIABLE_REQUEST = VariableRequest, "a variable request":
        umbo_variable_request => VariableRequest;
    UMBO_HANDLE_ELEMENT_SPEC = ElementSpec, "an element spec":
        umbo_element_spec => Arc<ElementSpec>;
    UMBO_HANDLE_EQUIVALENCE = Equivalence, "an equivalence": umbo_equivalence => Arc<CheckedStep>;
    UMBO_HANDLE_METRICS = Metrics, "metrics": umbo_metrics => Arc<Metrics>;
    UMBO_HANDLE_CHECKPOINT = Checkpoint, "a checkpoint": umbo_checkpoint => Arc<Checkpoint>;
    UMBO_HANDLE_CHECKPOINT_MANAGER = CheckpointManager, "a checkpoint manager":
        umbo_checkpoint_manager => Arc<Manager>;
    UMBO_HANDLE_COMMUNICATOR = Communicator, "a communicator":
        umbo_communicator => Arc<dyn Communicator>;
    UMBO_HANDLE_TRAINER = Trainer, "a trainer": umbo_trainer => Arc<Trainer>;
}

/// Elements of one type on one device, with strides.
pub struct umbo_tensor([u8; 0]);

/// A tensor, a variable, a per-replica value, indexed slices, or a tuple, list or struct of values.
pub struct umbo_value([u8; 0]);

/// How a training step is replicated over devices, and where its variables live.
pub struct umbo_strategy([u8; 0]);

/// A scope of a strategy that a thread has entered.
pub struct umbo_scope([u8; 0]);

/// A replica's part in the step in progress. It is lent to the replica's callback.
pub struct umbo_replica_context([u8; 0]);

/// A value on the parameter device that steps read and change.
pub struct umbo_variable([u8; 0]);

/// A sequence of elements, described but not yet produced.
pub struct umbo_dataset([u8; 0]);

/// A dataset whose elements are split over the replicas of a strategy.
pub struct umbo_distributed_dataset([u8; 0]);

/// A pass over a dataset or a distributed dataset.
pub struct umbo_iterator([u8; 0]);

/// Gradient buffers, one per variable and replica.
pub struct umbo_gradients([u8; 0]);

/// A rule that changes variables by gradients, with the state that the rule keeps.
pub struct umbo_optimizer([u8; 0]);

/// A request to stop, which any thread may make.
pub struct umbo_cancellation([u8; 0]);

/// The processes of a cluster, and which of them this one is.
pub struct umbo_cluster_resolver([u8; 0]);

/// A variable that is about to be made. It is lent to a variable creator.
pub struct umbo_variable_request([u8; 0]);

/// The structure, dtypes and shapes of the elements of a dataset.
pub struct umbo_element_spec([u8; 0]);

/// The result of a check of one replica against all.
pub struct umbo_equivalence([u8; 0]);

/// Named numbers that accumulate over runs.
pub struct umbo_metrics([u8; 0]);

/// Objects that are saved and restored together, by name.
pub struct umbo_checkpoint([u8; 0]);

/// A manager of the checkpoints of a training: it writes them, and keeps the newest and the best.
pub struct umbo_checkpoint_manager([u8; 0]);

/// The link of the processes of a training: it moves bytes from each to each.
pub struct umbo_communicator([u8; 0]);

/// All that a training over arrays of the program has.
pub struct umbo_trainer([u8; 0]);
