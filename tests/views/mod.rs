//! Views of variables as a callback of C gets them, in any dtype that one can have.

use half::{bf16, f16};
use umbo_core::error::Result;
use umbo_core::strategy::ReplicaContext;
use umbo_core::strategy::variables::refreshed_copy;
use umbo_core::tensor::{DType, Tensor};
use umbo_core::values::variable::Variable;

/// The value of a variable as a callback sees it.
pub fn view<'a>(
    context: &ReplicaContext,
    variable: &'a Variable,
    dtype: DType,
) -> Result<&'a Tensor> {
    // SAFETY: callers assign nothing meanwhile; that views are written is what they test.
    unsafe { refreshed_copy(Some(context), variable, dtype) }
}

/// Its elements, widened.
pub fn numbers(tensor: &Tensor) -> Vec<f32> {
    match tensor.dtype() {
        DType::Float16 => tensor
            .to_vec::<f16>()
            .unwrap()
            .iter()
            .map(|x| x.to_f32())
            .collect(),
        DType::BFloat16 => tensor
            .to_vec::<bf16>()
            .unwrap()
            .iter()
            .map(|x| x.to_f32())
            .collect(),
        DType::Int64 => tensor
            .to_vec::<i64>()
            .unwrap()
            .iter()
            .map(|&x| x as f32)
            .collect(),
        _ => tensor.to_vec().unwrap(),
    }
}
