//! The best possible speed of memory: a loop that only moves bytes, to compare it with operations
//! that compute.
//!
//! A probe has the same streams as the operation with which it is compared. The same memory is
//! read, written, or read and written, by the same workers in the same ranges. Its only computation
//! is an exclusive or.

use std::ops::Range;

use umbo_core::error::{Error, Result};
use umbo_core::executor::workers;
use umbo_core::kernels::dtype::DType;
use umbo_core::kernels::instruction_set::{Instructions, Kernel, dispatch, keep_to_blocks};
use umbo_core::kernels::layout::Layout;
use umbo_core::kernels::streaming::{self, LINE};
use umbo_core::kernels::view::{View, ViewMut};
use umbo_core::tensor::Tensor;

type Line = [u64; LINE / 8];

/// Moves the bytes that an operation would move, and does nothing else. It reads `reads`, writes
/// any values to `write`, past the caches if `streaming`, and reads and writes back `in_place`.
/// There are 1, 2, 4 or 8 `reads` and at most four tensors `in_place`.
///
/// The tensors of one kind have equal numbers of bytes, and the bytes of all kinds are multiples of
/// the smallest number. All tensors are contiguous, start at a cache line, and share no memory. If
/// not, it fails with INVALID_ARGUMENT.
pub fn move_bytes(
    reads: &[Tensor],
    write: Option<&Tensor>,
    in_place: &[Tensor],
    streaming: bool,
) -> Result<()> {
    let reads: Vec<View> = reads.iter().map(Tensor::reading).collect::<Result<_>>()?;
    // SAFETY: nobody else uses a benchmark's tensors while it measures.
    let to_write = |tensor| unsafe { Tensor::assume_exclusive(tensor) }.into_view();
    let mut in_place = in_place.iter().map(to_write).collect::<Result<Vec<_>>>()?;
    let mut write = write.map(to_write).transpose()?;
    move_views(&reads, write.as_mut(), &mut in_place, streaming)
}

/// Reads all of `reads`, of which there are 1, 2, 4 or 8. Writes any values to `write` (past the
/// caches if `streaming`), and writes the old contents to each of `in_place`, of which there are at
/// most four. Bytes after the last whole line are left out. It is possible to read only.
///
/// The streams of one kind have equal sizes, and the sizes of all kinds are multiples of the
/// smallest one: gradients or copies may be narrower than the weights, and results wider than the
/// reduced tensors.
///
/// Fails with INVALID_ARGUMENT for other numbers or sizes of streams, and if a stream is not
/// contiguous or does not start at a line.
fn move_views(
    reads: &[View],
    write: Option<&mut ViewMut>,
    in_place: &mut [ViewMut],
    streaming: bool,
) -> Result<()> {
    let span = |data: *const u8, layout: &Layout, dtype: DType| {
        let whole = layout.is_contiguous() && data.addr().is_multiple_of(LINE);
        whole.then_some(layout.shape.elements() * dtype.size())
    };
    let of_view = |view: &View| span(view.data(), view.layout(), view.dtype());
    let of_mut = |view: &ViewMut| span(view.data(), view.layout(), view.dtype());
    let kinds = [
        common(reads.iter().map(of_view)),
        common(write.iter().map(|view| of_mut(view))),
        common(in_place.iter().map(of_mut)),
    ];
    let [Some(read), Some(written), Some(kept)] = kinds else {
        return Err(Error::invalid(
            "value",
            "the streams of a probe are contiguous, those of one kind of one size, and start at a \
             cache line",
        ));
    };
    let sizes = [read, written, kept].into_iter().flatten();
    let smallest = sizes.clone().min().unwrap_or(0);
    if sizes.clone().any(|size| size % smallest.max(1) != 0) {
        let sizes: Vec<usize> = sizes.collect();
        return Err(Error::invalid(
            "value",
            format!("{sizes:?} bytes; not multiples of one"),
        ));
    }
    let lines_of = |size: Option<usize>| size.map_or(0, |size| size / smallest.max(1));
    let streams = Streams {
        reads,
        write: write.as_deref(),
        in_place,
        streaming,
        units: smallest / LINE,
        lines: Unit {
            read: lines_of(read),
            written: lines_of(written),
            kept: lines_of(kept),
        },
    };
    match reads.len() {
        1 => streams.with_reads::<1>(),
        2 => streams.with_reads::<2>(),
        4 => streams.with_reads::<4>(),
        8 => streams.with_reads::<8>(),
        other => Err(Error::invalid(
            "value",
            format!("{other} components; not 1, 2, 4 or 8"),
        )),
    }
}

/// The size of all streams of a kind, if it is the same; `Some(None)` if there are no streams.
fn common(mut sizes: impl Iterator<Item = Option<usize>>) -> Option<Option<usize>> {
    let Some(first) = sizes.next() else {
        return Some(None);
    };
    first.filter(|_| sizes.all(|size| size == first)).map(Some)
}

/// The numbers of lines of each kind's streams that belong to one line of the narrowest stream.
#[derive(Clone, Copy)]
struct Unit {
    read: usize,
    written: usize,
    kept: usize,
}

struct Streams<'a> {
    reads: &'a [View<'a>],
    write: Option<&'a ViewMut<'a>>,
    in_place: &'a [ViewMut<'a>],
    streaming: bool,
    units: usize,
    lines: Unit,
}

impl Streams<'_> {
    fn with_reads<const R: usize>(&self) -> Result<()> {
        match self.in_place.len() {
            0 => self.run::<R, 0>(),
            1 => self.run::<R, 1>(),
            2 => self.run::<R, 2>(),
            3 => self.run::<R, 3>(),
            4 => self.run::<R, 4>(),
            other => {
                return Err(Error::invalid(
                    "in_place",
                    format!("{other} streams; at most 4"),
                ));
            }
        }
        Ok(())
    }

    fn run<const R: usize, const S: usize>(&self) {
        // Most probes move line by line, and have a specialised loop.
        let single = matches!(
            self.lines,
            Unit {
                read: 1,
                written: 0 | 1,
                kept: 0 | 1
            }
        );
        match (single, self.streaming) {
            (true, true) => self.run_in::<R, S, true, true>(),
            (true, false) => self.run_in::<R, S, true, false>(),
            (false, true) => self.run_in::<R, S, false, true>(),
            (false, false) => self.run_in::<R, S, false, false>(),
        }
    }

    fn run_in<const R: usize, const S: usize, const SINGLE: bool, const STREAMING: bool>(&self) {
        let Unit {
            read,
            written,
            kept,
        } = self.lines;
        let lines = R * read + written + 2 * S * kept;
        // The compiler must not know the value, because it could leave out a loop that changes
        // nothing.
        let mask = std::hint::black_box(0);
        workers::for_each_range(self.units, lines * LINE, &|range| {
            let lines = Lines::<R, S, SINGLE, STREAMING> {
                reads: std::array::from_fn(|stream| self.reads[stream].data().cast()),
                write: self.write.map(|view| view.data().cast()),
                in_place: std::array::from_fn(|stream| self.in_place[stream].data().cast()),
                lines: self.lines,
                mask,
                range,
            };
            dispatch(Instructions::chosen(), lines);
        });
    }
}

/// One worker's units. `move_views` has checked that all pointers have these units. With `SINGLE` a
/// unit is one line of each stream. With `STREAMING`, lines are written past the caches.
struct Lines<const R: usize, const S: usize, const SINGLE: bool, const STREAMING: bool> {
    reads: [*const Line; R],
    write: Option<*mut Line>,
    in_place: [*mut Line; S],
    lines: Unit,
    mask: u64,
    range: Range<usize>,
}

impl<const R: usize, const S: usize, const SINGLE: bool, const STREAMING: bool> Kernel
    for Lines<R, S, SINGLE, STREAMING>
{
    #[inline(always)]
    fn run(self, instructions: Instructions) {
        let Unit {
            read,
            written,
            kept,
        } = self.lines;
        let (read, written, kept) = if SINGLE {
            (1, 1, 1)
        } else {
            (read, written, kept)
        };
        for unit in self.range {
            let mut sum = [0; LINE / 8];
            for stream in self.reads {
                for line in unit * read..(unit + 1) * read {
                    // SAFETY: the views have this line, their builders guarantee that it can be
                    // read, and any bytes are integers.
                    let more = unsafe { stream.add(line).read() };
                    sum.iter_mut()
                        .zip(more)
                        .for_each(|(sum, more)| *sum ^= more);
                    keep_to_blocks();
                }
            }
            for stream in self.in_place {
                for line in unit * kept..(unit + 1) * kept {
                    // SAFETY: as above, and the line belongs only to this worker. With a mask of 0
                    // it is written unchanged.
                    unsafe {
                        let stream = stream.add(line);
                        let mut same = stream.read();
                        same.iter_mut()
                            .zip(sum)
                            .for_each(|(same, sum)| *same ^= sum & self.mask);
                        stream.write(same);
                    }
                }
            }
            if let Some(write) = self.write {
                for line in unit * written..(unit + 1) * written {
                    // SAFETY: as above, and views that a probe takes start at a line.
                    unsafe {
                        let to = write.add(line);
                        if STREAMING {
                            let line = (&raw const sum).cast();
                            streaming::write_line(instructions, line, to.cast());
                        } else {
                            to.write(sum);
                        }
                    }
                }
            } else if S == 0 {
                // Without this, the compiler could leave out the reads.
                std::hint::black_box(sum);
            }
            keep_to_blocks();
        }
        streaming::finish();
    }
}

#[cfg(test)]
mod tests {
    use umbo_core::device::DeviceId;
    use umbo_core::error::Result;
    use umbo_core::tensor::{Shape, Tensor, TensorMut};

    fn exclusive(tensor: &Tensor) -> TensorMut<'_> {
        // SAFETY: nobody else uses a test's tensors.
        unsafe { tensor.assume_exclusive() }
    }

    #[test]
    fn a_probe_writes_its_output_and_keeps_what_is_in_place() {
        let shape = Shape::new(&[4096]).unwrap();
        let filled =
            |value: i32| Tensor::from_slice(&vec![value; 4096], shape, DeviceId::HOST).unwrap();
        let [read, other, kept, output] = [3, 5, 7, 0].map(filled);
        for streaming in [false, true] {
            exclusive(&output).fill_zeros().unwrap();
            let reads = [read.reading().unwrap(), other.reading().unwrap()];
            let mut in_place = [exclusive(&kept).into_view().unwrap()];
            let mut write = exclusive(&output).into_view().unwrap();
            super::move_views(&reads, Some(&mut write), &mut in_place, streaming).unwrap();
            assert!(
                output
                    .to_vec::<i32>()
                    .unwrap()
                    .iter()
                    .all(|&value| value == 3 ^ 5)
            );
            assert!(
                kept.to_vec::<i32>()
                    .unwrap()
                    .iter()
                    .all(|&value| value == 7)
            );
            assert!(super::move_views(&reads[..0], Some(&mut write), &mut [], streaming).is_err());
        }
    }

    #[test]
    fn streams_may_be_narrower_or_wider() {
        let filled = |elements: usize, value: i16| {
            let shape = Shape::new(&[elements]).unwrap();
            Tensor::from_slice(&vec![value; elements], shape, DeviceId::HOST).unwrap()
        };
        let moved = |read: usize, kept: usize, written: usize| -> Result<()> {
            let smallest = read.min(kept).min(written);
            // An even number of equal lines gives zero.
            let expected = if (read / smallest).is_multiple_of(2) {
                0
            } else {
                3
            };
            let [source, same, output] = [(read, 3), (kept, 7), (written, -1)]
                .map(|(elements, value)| filled(elements, value));
            let views = [source.reading().unwrap()];
            let mut write = exclusive(&output).into_view().unwrap();
            let mut same_too = [exclusive(&same).into_view().unwrap()];
            super::move_views(&views, Some(&mut write), &mut same_too, false)?;
            assert!(
                same.to_vec::<i16>()
                    .unwrap()
                    .iter()
                    .all(|&value| value == 7)
            );
            assert!(
                output
                    .to_vec::<i16>()
                    .unwrap()
                    .iter()
                    .all(|&value| value == expected)
            );
            Ok(())
        };
        for (read, kept, written) in [
            (4096, 4096, 2048),
            (2048, 4096, 2048),
            (2048, 4096, 4096),
            (2048, 2048, 8192),
        ] {
            moved(read, kept, written).unwrap();
        }
        assert!(moved(4096, 4096, 3072).is_err());
    }
}
