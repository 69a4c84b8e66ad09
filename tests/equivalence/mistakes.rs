//! Each mistake is called by its name.

mod buffers;
mod parts;
mod reductions;

use crate::setup::*;

use LossReduction::{GlobalMean, Mean, Sum};

/// A callback that reduces as `written` says, under gradients that are declared as `declared`.
fn reduced(
    replicas: usize,
    count: usize,
    declared: LossReduction,
    written: LossReduction,
) -> Report {
    checked(replicas, declared, &rows(count), |context, gradients| {
        contribute(
            context,
            gradients,
            sum(&part(context)),
            1.0 / divisor(written, context),
        )
    })
}

/// What the check says of a callback that contributes what `contribute` does, and submits.
fn checked(
    replicas: usize,
    declared: LossReduction,
    rows: &[Row],
    contribute: impl Fn(&ReplicaContext, &Arc<Gradients>) -> Result<()> + Send + Sync,
) -> Report {
    let model = Model::new(replicas, declared);
    model.check(&batch_of(rows), |context| {
        contribute(context, &model.gradients)?;
        model.gradients.submit_in(context, None)?;
        Ok(None)
    })
}
