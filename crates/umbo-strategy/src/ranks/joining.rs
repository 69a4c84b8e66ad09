//! Collectives before the first step: the ranks make the strategy and its variables.

#![expect(
    unsafe_code,
    reason = "the initial value of a variable that nobody has yet is replaced"
)]

use std::sync::Arc;

use super::collective_call::{Call, zeros};
use super::descriptor::CollectiveKind;
use super::group::{Ranks, turn_of};
use super::quantities::AddQuantity;
use umbo_base::error::{Error, Result};
use umbo_comm::communicator::Communicator;
use umbo_device::DeviceId;
use umbo_kernels::float::real;
use umbo_tensor::Tensor;
use umbo_tensor::values::sharding::VariableSharding;

impl Ranks {
    /// The ranks that `engine` joins, of which there are two or more, once all of them have made a
    /// strategy as this one has; and what was made. `about` says how many replicas it has, and
    /// a number that no other strategy of this rank has. `in_sync` is how many replicas there
    /// are to be on all ranks together, if that count is fixed; `is_elastic` says whether ranks
    /// can die, leave and join.
    pub(crate) fn join<T>(
        engine: &Arc<dyn Communicator>,
        made: Result<T>,
        in_sync: Option<usize>,
        is_elastic: bool,
        about: impl FnOnce(&T) -> [u64; 2],
    ) -> Result<(T, Arc<Ranks>)> {
        let rank = engine.rank();
        let size = engine.size();
        if rank >= size {
            let problem = format!("says that it is rank {rank} of {size}; ranks count from 0");
            return Err(Error::invalid("communicator", problem));
        }
        let mut ranks = Ranks {
            is_fixed: in_sync.is_some(),
            is_elastic,
            ..Ranks::of(engine, turn_of(engine), Vec::new())
        };
        let numbers = made.as_ref().map_or([0; 2], about);
        let purpose = match in_sync {
            None => "the making of a strategy with one replica for each device".to_owned(),
            Some(count) => format!("the making of a strategy with {count} replicas in sync"),
        };
        let quantities = |add: &mut AddQuantity<'_>| {
            add(&"the number of replicas in sync", in_sync.into());
            add(&"the option elastic", is_elastic.into());
        };
        let call = Call {
            numbers,
            ..Call::to(CollectiveKind::Strategy, &purpose).agreeing(&quantities)
        };
        let (collective, made) = ranks.start_collective(call, made)?;
        let numbers: Vec<[u64; 2]> = collective.numbers().collect();
        drop(collective);
        ranks.tag = numbers[0][1];
        ranks.replicas = numbers.iter().map(|row| row[0] as usize).collect();
        Ok((made, Arc::new(ranks)))
    }

    /// Sets the initial value of the variable `name` to rank 0's `value` on all ranks. Nobody else
    /// has the tensor yet. A failure is [`Error::Rank`], also on the rank that failed, since
    /// the other ranks know of it. Returns the sharding, if optimizers can update the variable
    /// and all ranks have it in host memory. Elastic ranks divide nothing.
    pub(crate) fn same_initial(
        &self,
        name: &str,
        value: &Tensor,
    ) -> Result<Option<VariableSharding>> {
        if self.is_alone() {
            return Ok(None);
        }
        let dtype = value.dtype();
        let shape = value.shape();
        let purpose = format_args!("the making of variable '{name}', {dtype} of shape {shape}");
        let quantities = |add: &mut AddQuantity<'_>| {
            add(&"the name of the variable", name.into());
            add(&"its type", dtype.name().into());
            add(&"its shape", shape[..].into());
        };
        let call = Call {
            numbers: [u64::from(value.device().is_host_memory()), 0],
            ..Call::to(CollectiveKind::Variable, &purpose).agreeing(&quantities)
        };
        let is_here = value.device().is_host_memory() && value.layout().is_contiguous();
        let copy = || {
            let mut copy = zeros(if is_here { 0 } else { shape.bytes(dtype)? })?;
            if !is_here {
                value.copy_to_host(&mut copy)?;
            }
            Ok(copy)
        };
        let (mut collective, mut copy) = self
            .start_collective(call, copy())
            .map_err(|error| self.known_to_all(error))?;
        let bytes = match is_here {
            // SAFETY: nobody else has the variable's value yet, and its bytes are contiguous.
            true => unsafe { std::slice::from_raw_parts_mut(value.address(), value.bytes()) },
            false => &mut copy,
        };
        collective.broadcast(0, bytes)?;
        // All ranks do this. If the engine has failed, no later collective follows.
        let is_on_hosts = collective.numbers().all(|[is_on_host, _]| is_on_host != 0);
        let is_divided =
            is_on_hosts && !self.are_elastic() && real::is_supported(real::computing(dtype));
        let sharding = is_divided.then(|| {
            self.loads
                .lock()
                .divide(self.rank(), shape.elements(), dtype.size())
        });
        drop(collective);
        if self.rank() > 0 && !is_here {
            let first = Tensor::from_bytes(dtype, shape, &copy, DeviceId::HOST)?;
            // SAFETY: nobody else has the variable's value yet.
            unsafe { value.assume_exclusive() }.copy_from(&first)?;
        }
        Ok(sharding)
    }

    /// An error that the other ranks know, so that it is not reported to them again.
    fn known_to_all(&self, error: Error) -> Error {
        if matches!(error.unnamed(), Error::Rank { .. }) {
            return error;
        }
        let rank = self.rank();
        let status = error.status();
        let message = format!("rank {rank} failed: {}: {error}", status.name());
        Error::Rank {
            rank: Some(rank),
            status,
            message,
        }
    }

    /// Reports to the other ranks, which make the variable `name`, that this rank has failed to
    /// make it.
    pub(crate) fn failed_to_make(&self, name: &str, error: Error) -> Error {
        let purpose = format_args!("the making of variable '{name}'");
        match self.start_collective(
            Call::to(CollectiveKind::Variable, &purpose),
            Err::<(), _>(error),
        ) {
            Err(error) => error,
            Ok(_) => Error::Internal("the ranks have met although one had failed".into()),
        }
    }
}
