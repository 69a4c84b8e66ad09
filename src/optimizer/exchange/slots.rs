//! State that each rank keeps a part of, put together.

use crate::error::Result;
use crate::optimizer::variable_states::{Kept, part_of};
use crate::strategy::ranks::{Call, Kind, Ranks, Tell, room};
use crate::tensor::Tensor;

/// The slot `name` of a variable, of which each rank has what it keeps: all of its elements, on the
/// variable's device and of its shape. A call that all ranks make.
pub(in crate::optimizer) fn whole(ranks: &Ranks, name: &str, kept: &Kept) -> Result<Tensor> {
    let Kept { variable, tensor, .. } = kept;
    let (dtype, shape) = (variable.dtype(), variable.shape());
    let what = format_args!("the state '{name}' of {variable:?}");
    let prepare = || {
        let own = match (variable.division(), kept.is_whole()) {
            (Some(division), true) => part_of(tensor, &division.own())?,
            _ => tensor.clone(),
        };
        let (mut send, receive) = (room(own.bytes())?, room(shape.bytes(dtype)?)?);
        own.copy_to_host(&mut send)?;
        Ok((send, receive))
    };
    let quantities = |tell: &mut Tell<'_>| {
        tell(&"the name of the variable", variable.name().as_str().into());
        tell(&"the name of the state", name.into());
        tell(&"its shape", shape[..].into());
    };
    let call = Call {
        numbers: [u64::from(!kept.is_whole()), 0],
        ..Call::to(Kind::State, &what).agreeing(&quantities)
    };
    let (mut meeting, (send, mut receive)) = ranks.meet(call, prepare())?;
    let is_divided = meeting.numbers().any(|[is_part, _]| is_part != 0);
    match variable.division().filter(|_| is_divided) {
        Some(division) => {
            let counts: Vec<usize> =
                division.parts().map(|part| part.len() * dtype.size()).collect();
            meeting.all_gather_into(&send, &mut receive, &counts)?;
        }
        None => tensor.copy_to_host(&mut receive)?,
    }
    drop(meeting);
    Tensor::from_bytes(dtype, shape, &receive, variable.device())
}
