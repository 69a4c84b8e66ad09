//! Runs kernels of every kind on values that are difficult for them, and compares the results with
//! those of the CPU.

use umbo_core::collectives::{self, Assignment, ReduceOp};
use umbo_core::device::DeviceId;
use umbo_core::error::Result;
use umbo_core::optimizer::rules::catalogue::{self, NamedRule};
use umbo_core::optimizer::{
    GradientMode, Gradients, LossReduction, Optimizer, Settings, UpdateRule, apply,
};
use umbo_core::strategy::variables::{self, Initial, NewVariable};
use umbo_core::strategy::{Options, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::variable::{Aggregation, Synchronization, Variable};

use super::Checked;

/// Numbers of every kind except NaN, whose payload is not guaranteed, in a mixed order.
fn hard_numbers(count: usize, salt: u64) -> Vec<f64> {
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        1e-45,
        3e-39,
        1.2e-38,
        65504.0,
        3.4e38,
        -1e-7,
        0.1,
        1.0 / 3.0,
    ];
    (0..count as u64)
        .map(|at| {
            let mixed = (at + salt)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(23)
                ^ salt;
            match mixed % 5 {
                0 => edges[(mixed >> 8) as usize % edges.len()],
                _ => f64::from((mixed >> 32) as i32) / 3e8,
            }
        })
        .collect()
}

/// A tensor on the host of such numbers, or of such bits for integers.
fn hard(dtype: DType, shape: Shape, salt: u64) -> Result<Tensor> {
    let numbers = hard_numbers(shape.elements(), salt);
    let bytes: Vec<u8> = match dtype {
        DType::Float64 => numbers
            .iter()
            .flat_map(|number| number.to_ne_bytes())
            .collect(),
        DType::Float32 => numbers
            .iter()
            .flat_map(|number| (*number as f32).to_ne_bytes())
            .collect(),
        // The upper half of a float32 is a bfloat16. A float16 is made of bits of the float64. Two
        // bits of its exponent are cleared, so that it is finite.
        DType::BFloat16 => numbers
            .iter()
            .flat_map(|number| (((*number as f32).to_bits() >> 16) as u16).to_ne_bytes())
            .collect(),
        DType::Float16 => numbers
            .iter()
            .flat_map(|number| ((number.to_bits() >> 40) as u16 & 0xBBFF).to_ne_bytes())
            .collect(),
        _ => numbers
            .iter()
            .flat_map(|number| number.to_bits().to_ne_bytes()[8 - dtype.size()..].to_vec())
            .collect(),
    };
    Tensor::from_bytes(dtype, shape, &bytes, DeviceId::HOST)
}

fn bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let mut bytes = vec![0; tensor.shape().bytes(tensor.dtype())?];
    tensor.copy_to_host(&mut bytes)?;
    Ok(bytes)
}

/// Compares everything on `device`.
pub fn check(device: DeviceId) -> Result<Checked> {
    let mut checked = Checked::default();
    for &dtype in DType::NUMERIC {
        values(&mut checked, device, dtype)?;
    }
    for NamedRule { name, make, .. } in catalogue::RULES {
        for (clip, dtype) in [
            (None, DType::Float32),
            (Some(0.5), DType::Float32),
            (None, DType::Float64),
        ] {
            let on_gpu = train(device, make(), clip, dtype)?;
            let on_cpu = train(DeviceId::HOST, make(), clip, dtype)?;
            let case = || format!("{name} on {dtype}, clipping {clip:?}");
            checked.compare(case, &on_gpu, &on_cpu);
        }
    }
    Ok(checked)
}

/// Compares copies, sums and means.
fn values(checked: &mut Checked, device: DeviceId, dtype: DType) -> Result<()> {
    for rows in [1usize, 33, 200] {
        let shape = Shape::new(&[rows, 5, 3])?;
        let on_cpu: Vec<Tensor> = (0..3)
            .map(|salt| hard(dtype, shape, salt))
            .collect::<Result<_>>()?;
        let on_gpu: Vec<Tensor> = on_cpu
            .iter()
            .map(|tensor| tensor.copied_to(device))
            .collect::<Result<_>>()?;
        let odd = |tensor: &Tensor| tensor.transpose(&[2, 0, 1])?.slice(2, 1, 5, 2);
        let copies = (bytes(&odd(&on_gpu[0])?)?, bytes(&odd(&on_cpu[0])?)?);
        checked.compare(
            || format!("copies of {dtype} {shape}"),
            &copies.0,
            &copies.1,
        );
        for assignment in [Assignment::Add, Assignment::Subtract] {
            let combined = |tensors: &[Tensor], device| -> Result<Vec<u8>> {
                let mut to = tensors[0].copied_to(device)?;
                let Some(mut target) = to.get_mut() else {
                    return Ok(Vec::new());
                };
                collectives::combine_into(assignment, &mut target, &tensors[1])?;
                bytes(&to)
            };
            let case = || format!("{assignment:?} of {dtype} {shape}");
            checked.compare(
                case,
                &combined(&on_gpu, device)?,
                &combined(&on_cpu, DeviceId::HOST)?,
            );
        }
        for op in ReduceOp::ALL {
            for axes in [None, Some(&[0i64][..]), Some(&[0, 2])] {
                let reduced = |parts: &[Tensor], device| -> Result<Vec<u8>> {
                    bytes(&collectives::reduce(op, parts, axes, device, None)?)
                };
                let case = || format!("{op:?} of {dtype} {shape} over axes {axes:?}");
                checked.compare(
                    case,
                    &reduced(&on_gpu, device)?,
                    &reduced(&on_cpu, DeviceId::HOST)?,
                );
            }
        }
    }
    Ok(())
}

/// A variable of `strategy` with numbers from -1 to 1.
fn variable(strategy: &Strategy, shape: Shape, dtype: DType) -> Result<Variable> {
    let new = NewVariable {
        name: "v".into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation: Aggregation::None,
    };
    let numbers: Vec<f64> = (0..shape.elements())
        .map(|at| (at % 97) as f64 / 50.0 - 1.0)
        .collect();
    let start = floats(&numbers, dtype, shape)?;
    variables::create(Some(strategy), new, Initial::Value(&start))
}

/// Runs three steps of a training on one replica. Returns the bytes of the weights and of all
/// state.
fn train(
    device: DeviceId,
    rule: Box<dyn UpdateRule>,
    clip: Option<f64>,
    dtype: DType,
) -> Result<Vec<u8>> {
    let name = device.to_string();
    let strategy = Strategy::new(&Options {
        compute_devices: Some(vec![name.clone()]),
        parameter_device: Some(name),
        ..Options::default()
    })?;
    let shapes = [Shape::new(&[1027])?, Shape::new(&[4, 3])?];
    let variables = shapes
        .iter()
        .map(|shape| variable(&strategy, *shape, dtype))
        .collect::<Result<Vec<_>>>()?;
    let gradients = Gradients::new(
        strategy.id(),
        strategy.compute_devices(),
        variables.clone(),
        LossReduction::Mean,
        Default::default(),
    )?;
    let optimizer = Optimizer::new(strategy.id(), rule, 0.05)?;
    optimizer.configure(Settings {
        global_clip_norm: clip,
        ..Settings::default()
    })?;
    for step in 0..3u64 {
        strategy.run(
            &|context| {
                for (index, shape) in shapes.iter().enumerate() {
                    let buffer = gradients.view_in(context, index, GradientMode::Overwrite)?;
                    let numbers: Vec<f64> = hard_numbers(shape.elements(), step + 7 * index as u64)
                        .iter()
                        .map(|number| number.clamp(-1e4, 1e4))
                        .collect();
                    let values = floats(&numbers, dtype, *shape)?;
                    buffer_write(buffer, &values)?;
                }
                gradients.submit_in(context, Some(3.0))?;
                Ok(None)
            },
            None,
        )?;
        apply(&optimizer, &gradients)?;
    }
    let mut all = Vec::new();
    for variable in &variables {
        all.extend(bytes(&variables::read(variable)?)?);
        for slot in &optimizer.slots() {
            all.extend(bytes(&optimizer.state(variable, &slot.name)?)?);
        }
    }
    Ok(all)
}

fn floats(numbers: &[f64], dtype: DType, shape: Shape) -> Result<Tensor> {
    if dtype == DType::Float64 {
        return Tensor::from_slice(numbers, shape, DeviceId::HOST);
    }
    let narrow: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
    Tensor::from_slice(&narrow, shape, DeviceId::HOST)
}

#[expect(unsafe_code, reason = "a replica writes its own buffer")]
fn buffer_write(buffer: &Tensor, values: &Tensor) -> Result<()> {
    // SAFETY: the buffer belongs to the replica whose callback this is, until it submits.
    unsafe { buffer.assume_exclusive() }.copy_from(values)
}
