//! Copies between layouts, fills, conversions, and additions in place.

use crate::error::{Error, Result};
use crate::kernels::cuda::place::{GpuPlace, GpuRuns};
use crate::kernels::cuda::queue::{Address, KernelLauncher, KernelQueue, Plain, argument};
use crate::kernels::dtype::DType;
use crate::kernels::float::half_precision::{f64_to_bf16, f64_to_f16};

/// As the kernels read it.
#[derive(Clone, Copy)]
#[repr(C)]
struct CopyEntry {
    from: Address,
    to: Address,
    elements: u64,
    from_runs: GpuRuns,
    to_runs: GpuRuns,
}

const _: () = assert!(size_of::<CopyEntry>() == 488);

// SAFETY: numbers and plain data whose sizes add up to that of the whole, as asserted.
unsafe impl Plain for CopyEntry {}

/// As the kernels read it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Fill {
    to: Address,
    elements: u64,
    bits: u64,
    runs: GpuRuns,
}

const _: () = assert!(size_of::<Fill>() == 256);

// SAFETY: as above.
unsafe impl Plain for Fill {}

/// The widths for which there are kernels.
const WIDTHS: [u64; 5] = [1, 2, 4, 8, 16];

impl CopyEntry {
    fn new(from: &GpuPlace, to: &GpuPlace) -> CopyEntry {
        CopyEntry {
            from: from.address,
            to: to.address,
            elements: to.elements(),
            from_runs: GpuRuns::new(&from.layout),
            to_runs: GpuRuns::new(&to.layout),
        }
    }

    /// The same bytes in the widest pieces that a kernel can copy, and how wide those are.
    fn widest(self, width: u64) -> (CopyEntry, u64) {
        for &wide in WIDTHS.iter().rev().filter(|&&wide| wide > width) {
            let group = wide / width;
            let aligned = self.from.is_multiple_of(wide) && self.to.is_multiple_of(wide);
            if aligned
                && self.from_runs.is_in_groups_of(group)
                && self.to_runs.is_in_groups_of(group)
            {
                let copy = CopyEntry {
                    elements: self.elements / group,
                    from_runs: self.from_runs.in_groups_of(group),
                    to_runs: self.to_runs.in_groups_of(group),
                    ..self
                };
                return (copy, wide);
            }
        }
        (self, width)
    }
}

impl<Q: KernelQueue> KernelLauncher<Q> {
    /// Queues copies of the elements of each pair's first to the same positions of its second: one
    /// kernel for each width of pieces.
    ///
    /// Fails with INVALID_ARGUMENT if dtype or shape differ within a pair; nothing is queued then.
    ///
    /// # Safety
    /// The first may be read and the second written when the work that is queued here comes to it,
    /// by nobody else at the same time, and no element that is written is another's.
    pub unsafe fn copy(&mut self, pairs: &[(GpuPlace, GpuPlace)]) -> Result<()> {
        for (from, to) in pairs {
            check_same(from, to)?;
        }
        let wide = |(from, to): &(GpuPlace, GpuPlace)| {
            CopyEntry::new(from, to).widest(to.dtype.size() as u64)
        };
        for width in WIDTHS {
            let copies = pairs.iter().map(wide).filter(|(_, own)| *own == width);
            let kernel = match width {
                1 => "umbo_copy_1",
                2 => "umbo_copy_2",
                4 => "umbo_copy_4",
                8 => "umbo_copy_8",
                _ => "umbo_copy_16",
            };
            // SAFETY: the caller's promise.
            unsafe { self.queue_copies(kernel, copies.map(|(copy, _)| copy), None)? };
        }
        Ok(())
    }

    /// Queues that each element of the places becomes `value`, rounded to its type; for bool, which
    /// is not 0 is true. Integers hold the number as far as their range goes.
    ///
    /// # Safety
    /// As for the second of a pair in [`KernelLauncher::copy`].
    pub unsafe fn fill(&mut self, places: &[GpuPlace], value: f64) -> Result<()> {
        for width in &WIDTHS[..4] {
            let fills = places.iter().map(|place| {
                let (size, bits) = (place.dtype.size() as u64, bits(place.dtype, value));
                let fill = Fill {
                    to: place.address,
                    elements: place.elements(),
                    bits,
                    runs: GpuRuns::new(&place.layout),
                };
                fill.widest(size)
            });
            let fills = fills.filter(|(_, own)| own == width).map(|(fill, _)| fill);
            let count = fills.clone().count();
            if count == 0 {
                continue;
            }
            self.table.clear();
            let work = self.table.cut(self.thresholds, fills.clone().map(|fill| fill.elements))?;
            let at = self.table.begin::<Fill>(count)?;
            fills.for_each(|fill| self.table.push(fill));
            let table = self.queue.upload(self.table.bytes())?;
            let kernel = match width {
                1 => "umbo_fill_1",
                2 => "umbo_fill_2",
                4 => "umbo_fill_4",
                _ => "umbo_fill_8",
            };
            let mut items = table + at;
            // SAFETY: the caller's promise, and the arguments are the kernel's.
            unsafe { self.over(kernel, &work, table, &mut [argument(&mut items)], &mut [])? };
        }
        Ok(())
    }

    /// Queues that the elements of `to` become those of `from`, rounded once to their type. Floats
    /// only; between equal types it is a copy.
    ///
    /// Fails with INVALID_ARGUMENT for other types, and if the shapes differ.
    ///
    /// # Safety
    /// As for [`KernelLauncher::copy`].
    pub unsafe fn convert(&mut self, from: &GpuPlace, to: &GpuPlace) -> Result<()> {
        use DType::{BFloat16, Float16, Float32, Float64};
        if from.layout.shape != to.layout.shape {
            return Err(differ(from, to));
        }
        let kernel = match (from.dtype, to.dtype) {
            (Float16, BFloat16) => "umbo_convert_f16_bf16",
            (Float16, Float32) => "umbo_convert_f16_f32",
            (Float16, Float64) => "umbo_convert_f16_f64",
            (BFloat16, Float16) => "umbo_convert_bf16_f16",
            (BFloat16, Float32) => "umbo_convert_bf16_f32",
            (BFloat16, Float64) => "umbo_convert_bf16_f64",
            (Float32, Float16) => "umbo_convert_f32_f16",
            (Float32, BFloat16) => "umbo_convert_f32_bf16",
            (Float32, Float64) => "umbo_convert_f32_f64",
            (Float64, Float16) => "umbo_convert_f64_f16",
            (Float64, BFloat16) => "umbo_convert_f64_bf16",
            (Float64, Float32) => "umbo_convert_f64_f32",
            // SAFETY: the caller's promise.
            (same, other) if same == other => return unsafe { self.copy(&[(*from, *to)]) },
            (from, to) => {
                let problem = format!("{from} to {to}; only floats are converted");
                return Err(Error::invalid("dtype", problem));
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.queue_copies(kernel, std::iter::once(CopyEntry::new(from, to)), None) }
    }

    /// Queues `to += from`, element by element, or `to -= from` if it `subtracts`: integers wrap, floats
    /// are rounded after the operation, which for 16-bit ones is one in float32.
    ///
    /// Fails with INVALID_ARGUMENT if dtype or shape differ, and for bool.
    ///
    /// # Safety
    /// As for [`KernelLauncher::copy`].
    pub unsafe fn combine(
        &mut self,
        from: &GpuPlace,
        to: &GpuPlace,
        subtracts: bool,
    ) -> Result<()> {
        check_same(from, to)?;
        let kernel = match from.dtype {
            DType::Float16 => "umbo_combine_f16",
            DType::BFloat16 => "umbo_combine_bf16",
            DType::Float32 => "umbo_combine_f32",
            DType::Float64 => "umbo_combine_f64",
            DType::Int8 | DType::UInt8 => "umbo_combine_8",
            DType::Int16 | DType::UInt16 => "umbo_combine_16",
            DType::Int32 | DType::UInt32 => "umbo_combine_32",
            DType::Int64 | DType::UInt64 => "umbo_combine_64",
            DType::Bool => {
                let what = if subtracts { "subtracted" } else { "added" };
                let problem =
                    format!("bool values cannot be {what}; convert them to numbers first");
                return Err(Error::invalid("dtype", problem));
            }
        };
        let copy = std::iter::once(CopyEntry::new(from, to));
        // SAFETY: the caller's promise.
        unsafe { self.queue_copies(kernel, copy, Some(subtracts)) }
    }

    /// # Safety
    /// As for [`KernelLauncher::copy`]; the kernel takes copies, and then `flag`, if it is said.
    unsafe fn queue_copies(
        &mut self,
        kernel: &'static str,
        copies: impl Iterator<Item = CopyEntry> + Clone,
        flag: Option<bool>,
    ) -> Result<()> {
        let count = copies.clone().count();
        if count == 0 {
            return Ok(());
        }
        self.table.clear();
        let work = self.table.cut(self.thresholds, copies.clone().map(|copy| copy.elements))?;
        let at = self.table.begin::<CopyEntry>(count)?;
        copies.for_each(|copy| self.table.push(copy));
        let table = self.queue.upload(self.table.bytes())?;
        let (mut items, mut number) = (table + at, u32::from(flag == Some(true)));
        let flag: &mut [_] = match flag {
            Some(_) => &mut [argument(&mut number)],
            None => &mut [],
        };
        // SAFETY: the caller's promise, and the arguments are the kernel's.
        unsafe { self.over(kernel, &work, table, &mut [argument(&mut items)], flag) }
    }
}

impl Fill {
    /// The same bytes in the widest pieces that a kernel can fill.
    fn widest(self, width: u64) -> (Fill, u64) {
        let (mut fill, mut width) = (self, width);
        while width < 8 {
            if !(fill.to.is_multiple_of(2 * width) && fill.runs.is_in_groups_of(2)) {
                break;
            }
            fill.bits |= fill.bits << (8 * width);
            fill.runs = fill.runs.in_groups_of(2);
            fill.elements /= 2;
            width *= 2;
        }
        (fill, width)
    }
}

/// An element of this type with this value.
fn bits(dtype: DType, value: f64) -> u64 {
    match dtype {
        DType::Float16 => f64_to_f16(value).to_bits().into(),
        DType::BFloat16 => f64_to_bf16(value).to_bits().into(),
        DType::Float32 => (value as f32).to_bits().into(),
        DType::Float64 => value.to_bits(),
        DType::Int8 => (value as i8 as u8).into(),
        DType::Int16 => (value as i16 as u16).into(),
        DType::Int32 => (value as i32 as u32).into(),
        DType::Int64 => value as i64 as u64,
        DType::UInt8 => (value as u8).into(),
        DType::UInt16 => (value as u16).into(),
        DType::UInt32 => (value as u32).into(),
        DType::UInt64 => value as u64,
        DType::Bool => u64::from(value != 0.0),
    }
}

fn check_same(from: &GpuPlace, to: &GpuPlace) -> Result<()> {
    if from.dtype != to.dtype || from.layout.shape != to.layout.shape {
        return Err(differ(from, to));
    }
    Ok(())
}

fn differ(from: &GpuPlace, to: &GpuPlace) -> Error {
    Error::invalid(
        "tensor",
        format!(
            "{} of shape {} does not fit into {} of shape {}; dtype and shape must agree",
            from.dtype, from.layout.shape, to.dtype, to.layout.shape
        ),
    )
}
