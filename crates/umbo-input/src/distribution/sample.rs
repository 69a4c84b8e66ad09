//! The checksum of a sample of a batch. Ranks that read the same batches compare it, so that
//! batches of the same shape with other rows are noticed.
//!
//! Each rank has the whole batch, of which it takes its own rows. The rows of the others may still
//! lie in a file that is mapped, so only a few of them are looked at, and only a few pieces of
//! each.

use umbo_base::error::Result;
use umbo_tensor::Tensor;

/// The largest number of rows that are looked at.
const ROWS: usize = 32;

/// The number of pieces of a row that are looked at, if it is longer than all of them.
const PIECES: usize = 4;

/// The number of bytes of a piece.
const PIECE: usize = 64;

/// The checksum of a sample of `tensor`. `number` chooses the sample. Tensors that are equal have
/// the same checksum, wherever they lie.
pub(crate) fn checksum(number: u64, tensor: &Tensor) -> Result<u32> {
    let mut draw = Draw(number);
    let mut sum = crc32fast::Hasher::new();
    let bytes = tensor.shape().bytes(tensor.dtype())?;
    if bytes == 0 {
        return Ok(sum.finalize());
    }
    let is_plain = tensor.device().is_host_memory() && tensor.layout().is_contiguous();
    let rows = tensor.shape().first().copied().unwrap_or(1);
    let count = rows.min(ROWS);
    let size = bytes / rows;
    for nth in 0..count {
        // One row of each of as many ranges as there are rows to look at.
        let first = nth * rows / count;
        let behind = (nth + 1) * rows / count;
        let row = first + draw.below(behind - first);
        if is_plain {
            let view = tensor.reading()?;
            let all = view.as_bytes().unwrap_or_default();
            add(
                all.get(row * size..(row + 1) * size).unwrap_or_default(),
                &mut draw,
                &mut sum,
            );
        } else {
            let row = match tensor.shape().rank() {
                0 => tensor.clone(),
                _ => tensor.slice(0, row, row + 1, 1)?,
            };
            let copy = row.on_host()?.to_contiguous()?;
            add(
                copy.reading()?.as_bytes().unwrap_or_default(),
                &mut draw,
                &mut sum,
            );
        }
    }
    Ok(sum.finalize())
}

/// Adds a sample of a row.
fn add(row: &[u8], draw: &mut Draw, sum: &mut crc32fast::Hasher) {
    if row.len() <= PIECES * PIECE {
        return sum.update(row);
    }
    let mut sample = [0; PIECES * PIECE];
    let range = row.len() / PIECES;
    for (nth, piece) in sample.chunks_exact_mut(PIECE).enumerate() {
        let start = nth * range + draw.below(range - PIECE + 1);
        piece.copy_from_slice(&row[start..start + PIECE]);
    }
    sum.update(&sample);
}

/// Numbers that follow from the first one, the same in all processes (SplitMix64).
struct Draw(u64);

impl Draw {
    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_device::DeviceId;
    use umbo_tensor::Shape;

    fn tensor(numbers: &[i32], shape: &[usize]) -> Tensor {
        Tensor::from_slice(numbers, Shape::new(shape).unwrap(), DeviceId::HOST).unwrap()
    }

    fn of_one(number: u64, tensor: &Tensor) -> u32 {
        checksum(number, tensor).unwrap()
    }

    #[test]
    fn equal_elements_have_one_checksum_wherever_they_lie() {
        for (rows, columns) in [(1, 1), (7, 3), (100, 5), (40, 300)] {
            let numbers: Vec<i32> = (0..(rows * columns) as i32).collect();
            let plain = tensor(&numbers, &[rows, columns]);
            let mut turned = vec![0; numbers.len()];
            for (at, number) in numbers.iter().enumerate() {
                turned[at % columns * rows + at / columns] = *number;
            }
            let turned = tensor(&turned, &[columns, rows])
                .transpose(&[1, 0])
                .unwrap();
            assert!(!turned.layout().is_contiguous() || rows == 1 || columns == 1);
            for number in 0..20 {
                assert_eq!(of_one(number, &plain), of_one(number, &turned));
            }
        }
    }

    /// Rows in another order, and other rows, even if each differs in a few bytes: one of several
    /// samples shows it.
    #[test]
    fn other_rows_have_another_checksum() {
        for (rows, columns) in [(2, 1), (8, 1), (64, 4), (512, 784)] {
            let numbers: Vec<i32> = (0..(rows * columns) as i32).collect();
            let plain = tensor(&numbers, &[rows, columns]);
            let reversed: Vec<i32> = numbers.rchunks(columns).flatten().copied().collect();
            let reversed = tensor(&reversed, &[rows, columns]);
            for number in 0..20 {
                assert_ne!(
                    of_one(number, &plain),
                    of_one(number, &reversed),
                    "{rows}×{columns}"
                );
            }
            let mut other = numbers.clone();
            other[rows / 2 * columns..]
                .iter_mut()
                .for_each(|number| *number += 1);
            let other = tensor(&other, &[rows, columns]);
            assert!((0..20).all(|number| of_one(number, &plain) != of_one(number, &other)));
        }
    }

    #[test]
    fn tensors_without_elements_and_scalars_are_allowed() {
        let empty = tensor(&[], &[0, 4]);
        let narrow = tensor(&[], &[4, 0]);
        let scalar = tensor(&[7], &[]);
        assert_eq!(of_one(3, &empty), of_one(3, &narrow));
        assert_ne!(of_one(3, &scalar), of_one(3, &tensor(&[8], &[])));
    }
}
