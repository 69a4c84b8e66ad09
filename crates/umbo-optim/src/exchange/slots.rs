//! Gathering of state of which each rank keeps a shard.

use crate::state::stored_state::{LocalSlot, part_of};
use umbo_base::error::Result;
use umbo_comm::communicator::{Incoming, Outgoing};
use umbo_strategy::ranks::{AddQuantity, Call, CollectiveKind, Ranks, zeros};
use umbo_tensor::Tensor;
use umbo_tensor::collectives::copy_to;

/// The whole slot `name` of a variable, of which each rank keeps a shard, on the variable's device
/// and of the slot's shape. A collective call, unless the ranks divide no such slot.
pub(crate) fn whole(ranks: &Ranks, name: &str, kept: &LocalSlot) -> Result<Tensor> {
    let LocalSlot {
        variable, tensor, ..
    } = kept;
    if !kept.is_elementwise() {
        return copy_to(tensor, tensor.device());
    }
    let dtype = tensor.dtype();
    let shape = variable.shape();
    let purpose = format_args!("the state '{name}' of {variable:?}");
    let prepare = || {
        let own_part = match (variable.sharding(), kept.is_whole()) {
            (Some(sharding), true) => part_of(tensor, &sharding.own())?,
            _ => tensor.clone(),
        };
        let mut send = zeros(own_part.bytes())?;
        let receive = zeros(shape.bytes(dtype)?)?;
        own_part.copy_to_host(&mut send)?;
        Ok((send, receive))
    };
    let quantities = |add: &mut AddQuantity<'_>| {
        add(&"the name of the variable", variable.name().as_str().into());
        add(&"the name of the state", name.into());
        add(&"its shape", shape[..].into());
    };
    let call = Call {
        numbers: [u64::from(!kept.is_whole()), 0],
        ..Call::to(CollectiveKind::State, &purpose).agreeing(&quantities)
    };
    let (mut collective, (send, mut receive)) = ranks.start_collective(call, prepare())?;
    let is_divided = collective.numbers().any(|[is_part, _]| is_part != 0);
    match variable.sharding().filter(|_| is_divided) {
        Some(sharding) => {
            let counts: Vec<usize> = sharding
                .parts()
                .map(|part| part.len() * dtype.size())
                .collect();
            collective.all_gather_into(
                Outgoing::Host(&send),
                Incoming::Host(&mut receive),
                &counts,
            )?;
        }
        None => tensor.copy_to_host(&mut receive)?,
    }
    drop(collective);
    Tensor::from_bytes(dtype, shape, &receive, variable.device())
}
