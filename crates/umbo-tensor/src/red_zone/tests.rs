//! Tests of the red zones.

use super::*;

fn write(guarded: &GuardedMemory, offset: isize, byte: u8) {
    // SAFETY: the address is within the storage of the red zones, which nobody else has.
    unsafe { guarded.address().offset(offset).write(byte) };
}

#[test]
fn each_byte_of_both_red_zones_is_watched() {
    for bytes in [0, 1, 63, 64, 100] {
        let guarded = GuardedMemory::new(bytes, DeviceId::HOST).unwrap();
        assert!(guarded.address().addr().is_multiple_of(ALIGNMENT));
        assert_eq!(guarded.breach().unwrap(), None);
        for offset in 0..bytes {
            write(&guarded, offset as isize, 0);
        }
        assert_eq!(guarded.breach().unwrap(), None);
        for distance in 1..=WIDTH {
            write(&guarded, -(distance as isize), 7);
            assert_eq!(
                guarded.breach().unwrap(),
                Some(format!("before its beginning, at byte -{distance}"))
            );
            guarded.raise().unwrap();
            let behind = bytes + distance - 1;
            write(&guarded, behind as isize, 7);
            assert_eq!(
                guarded.breach().unwrap(),
                Some(format!("past its end, at byte {behind}"))
            );
            guarded.raise().unwrap();
        }
    }
}

#[test]
fn fresh_memory_is_nan_and_unwritten_elements_are_found() {
    let shape = Shape::new(&[5]).unwrap();
    let make = |dtype| GuardedMemory::tensor(dtype, shape, DeviceId::HOST).unwrap();
    assert!(make(DType::Float64).0.to_vec::<f64>().unwrap()[4].is_nan());
    assert!(make(DType::Float16).0.to_vec::<half::f16>().unwrap()[4].is_nan());
    assert!(make(DType::BFloat16).0.to_vec::<half::bf16>().unwrap()[4].is_nan());
    let (tensor, guarded) = make(DType::Float32);
    assert!(
        tensor
            .to_vec::<f32>()
            .unwrap()
            .iter()
            .all(|element| element.is_nan())
    );
    assert_eq!(guarded.region.first_unwritten(4).unwrap(), Some(0));
    assert_eq!(guarded.region.first_changed().unwrap(), None);
    let before = guarded.region.fingerprint().unwrap();
    // A NaN that the processor makes is not the pattern.
    let elements = Tensor::from_slice(
        &[0.0f32, f32::NAN, -1.0, 2.0, -f32::NAN],
        shape,
        DeviceId::HOST,
    );
    // SAFETY: nobody else has the tensor.
    unsafe { tensor.assume_exclusive() }
        .copy_from(&elements.unwrap())
        .unwrap();
    assert_eq!(guarded.region.first_unwritten(4).unwrap(), None);
    assert_eq!(guarded.region.first_changed().unwrap(), Some(0));
    assert_ne!(guarded.region.fingerprint().unwrap(), before);
}

/// An operator with an operand, which changes the element at an address.
struct Change {
    name: String,
    apply: unsafe fn(*mut u8, f64),
    operand: f64,
    /// Whether it changes no number.
    is_identity: bool,
}

/// Changes that programs make: each operator with operands of all sizes.
macro_rules! changes {
    ($type:ty, $from:expr, $operands:expr, [$($operator:literal: $apply:expr),+]) => {{
        let from: fn(f64) -> $type = $from;
        let mut all = Vec::new();
        $({
            unsafe fn apply(at: *mut u8, operand: f64) {
                let at = at.cast::<$type>();
                let from: fn(f64) -> $type = $from;
                let apply: fn($type, $type) -> $type = $apply;
                // SAFETY: the memory belongs to the test.
                unsafe { at.write(apply(at.read(), std::hint::black_box(from(operand)))) };
            }
            for operand in $operands {
                let apply_to: fn($type, $type) -> $type = $apply;
                let is_kept =
                    |number: f64| apply_to(from(number), from(operand)) == from(number);
                let name = format!("{} {} {operand}", stringify!($type), $operator);
                let is_identity = [0.0, 1.0, 2.0, 3.0, 5.0, 93.0].into_iter().all(is_kept);
                all.push(Change { name, apply, operand, is_identity });
            }
        })+
        all
    }};
}

macro_rules! of_integers {
    ($type:ty) => {
        changes!(
            $type,
            |number| number as i64 as $type,
            [0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 100.0, -1.0],
            [
                "=": |_, by| by,
                "+=": |was, by| was.wrapping_add(by),
                "-=": |was, by| was.wrapping_sub(by),
                "*=": |was, by| was.wrapping_mul(by),
                "/=": |was, by| if by == 0 { 0 } else { was.wrapping_div(by) },
                "^=": |was, by| was ^ by,
                "|=": |was, by| was | by,
                "<<=": |was, by| was.wrapping_shl(by as u32 & 7),
                ">>=": |was, by| was.wrapping_shr(by as u32 & 7)
            ]
        )
    };
}

macro_rules! of_floats {
    ($type:ty, $from:expr) => {{
        let epsilon = f64::from(<$type>::EPSILON);
        let near_one = [1.0 + epsilon, 1.0 - epsilon / 2.0];
        let others = [0.0, 1.0, -1.0, 0.5, 2.0, 1e-3, -1e3, 3.0, 1e-30];
        changes!(
            $type,
            $from,
            others.into_iter().chain(near_one),
            [
                "=": |_, by| by,
                "+=": |was, by| was + by,
                "-=": |was, by| was - by,
                "*=": |was, by| was * by,
                "/=": |was, by| was / by
            ]
        )
    }};
}

#[expect(
    clippy::cognitive_complexity,
    reason = "a macro repeats its body for each dtype"
)]
fn changes_of(dtype: DType) -> Vec<Change> {
    match dtype {
        DType::Float16 => of_floats!(half::f16, half::f16::from_f64),
        DType::BFloat16 => of_floats!(half::bf16, half::bf16::from_f64),
        DType::Float32 => of_floats!(f32, |number| number as f32),
        DType::Float64 => of_floats!(f64, |number| number),
        DType::Int8 => of_integers!(i8),
        DType::Int16 => of_integers!(i16),
        DType::Int32 => of_integers!(i32),
        DType::Int64 => of_integers!(i64),
        DType::UInt8 => of_integers!(u8),
        DType::UInt16 => of_integers!(u16),
        DType::UInt32 => of_integers!(u32),
        DType::UInt64 => of_integers!(u64),
        DType::Bool => changes!(
            u8,
            |number| u8::from(number != 0.0),
            [0.0, 1.0],
            [
                "=": |_, by| by,
                "&=": |was, by| was & by,
                "|=": |was, by| was | by,
                "^=": |was, by| was ^ by
            ]
        ),
    }
}

#[test]
fn each_operator_changes_each_red_zone() {
    let mut tried = 0;
    let mut seen = 0;
    for dtype in DType::ALL {
        let size = dtype.size() as isize;
        let shape = Shape::new(&[64 / dtype.size()]).unwrap();
        let typed = GuardedMemory::tensor(dtype, shape, DeviceId::HOST)
            .unwrap()
            .1;
        let memory = GuardedMemory::new(64, DeviceId::HOST).unwrap();
        for Change {
            name,
            apply,
            operand,
            is_identity,
        } in changes_of(dtype)
        {
            for (kind, guarded) in [("tensor", &typed), ("memory", &memory)] {
                let change = |offset: isize| {
                    // SAFETY: the offset is a multiple of the element's size, between the ends
                    // of the red zones.
                    unsafe { apply(guarded.address().offset(offset), operand) };
                };
                let signals = kind == "tensor" && dtype.is_float();
                // An operation that changes no number does not change the pattern, unless that
                // is a signalling NaN.
                if is_identity && !signals {
                    continue;
                }
                for offset in [-256, -size, 64, 64 + size] {
                    change(offset);
                    let breach = guarded.breach().unwrap();
                    assert!(breach.is_some(), "{name}, {kind}, {offset}");
                    guarded.raise().unwrap();
                    seen += 1;
                }
                // In memory without a type, every other 8 bytes are the NaN.
                let elements = if signals { 1 } else { 16 / size };
                (0..elements).for_each(|element| change(element * size));
                let changed = guarded.region.first_changed().unwrap();
                assert!(changed.is_some(), "{name}, {kind}, within");
                guarded.poison().unwrap();
                tried += 1;
            }
        }
    }
    assert!(tried > 1000 && seen > 4000, "{tried} {seen}");
}
