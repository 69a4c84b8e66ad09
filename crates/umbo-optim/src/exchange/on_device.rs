//! Shards of gradients on a device: kernels pack what a rank sends, as [`Shards::pack`] does in
//! host memory, and one copy brings it to the host.

#![expect(unsafe_code, reason = "kernels get addresses")]

use std::ops::Range;

use super::buffers::{AlignedBytes, padded};
use super::shards::{ShardRange, ShardedVariable, Shards};
use super::wire_form::WireForm;
use crate::apply::sources::GradientSources;
use umbo_base::error::Result;
use umbo_device::backend::Backend;
use umbo_kernels::dtype::DType;
use umbo_kernels::launch::{Address, DeviceContribution, DevicePlace, Gradient, on_device};
use umbo_kernels::layout::{Layout, Shape};
use umbo_tensor::Tensor;

/// The operation by which kernels pack the data that a rank sends.
#[derive(Default)]
struct Packing {
    copies: Vec<(DevicePlace, DevicePlace)>,
    sums: Vec<RangeSum>,
}

/// The sum of some replicas' contributions to a range of a variable. The contributions are listed
/// beside the gradient that they make.
struct RangeSum {
    gradient: Gradient<'static>,
    contributions: Vec<DeviceContribution>,
    to: Address,
}

impl Shards {
    /// As [`Shards::pack`], for gradients on `backend`.
    pub(crate) fn pack_from_device(
        &self,
        backend: &'static dyn Backend,
        round: usize,
        sources: &GradientSources<'_>,
        send: &mut AlignedBytes,
    ) -> Result<()> {
        let bytes: usize = self.counts(round).0.iter().sum();
        if bytes == 0 {
            return Ok(());
        }
        let packed = Tensor::zeros(DType::UInt8, Shape::new(&[bytes])?, backend.id())?;
        self.pack_with_kernels(backend, round, sources, packed.place().address)?;
        packed.copy_to_host(&mut send.bytes_mut()[..bytes])
    }

    /// Packs with kernels what this rank sends in a round, into fresh memory of the device from
    /// `start` on.
    pub(super) fn pack_with_kernels(
        &self,
        backend: &'static dyn Backend,
        round: usize,
        sources: &GradientSources<'_>,
        start: Address,
    ) -> Result<()> {
        let packing = self.plan_on_device(round, sources, start)?;
        let mut sums: Vec<(Gradient<'_>, Address)> = Vec::with_capacity(packing.sums.len());
        for RangeSum {
            gradient,
            contributions,
            to,
        } in &packing.sums
        {
            sums.push((
                Gradient {
                    contributions,
                    ..*gradient
                },
                *to,
            ));
        }
        // SAFETY: contributions and accumulated sums stay on the device until the apply, which has
        // claimed them, is over; the fresh tensor belongs to this call, and the ranges that
        // are written do not overlap.
        on_device(backend, |launcher| unsafe {
            launcher.copy(&packing.copies)?;
            launcher.accumulate(&sums)
        })
    }

    /// The copies and sums that write what this rank sends in a round, from `start` on.
    fn plan_on_device(
        &self,
        round: usize,
        sources: &GradientSources<'_>,
        start: Address,
    ) -> Result<Packing> {
        let of_items: Vec<Vec<DeviceContribution>> = self
            .items
            .iter()
            .map(|item| sources.contributions_on_device(item.index))
            .collect();
        let mut packing = Packing::default();
        let mut to = start;
        for rank in 0..self.shard_ranges.len() {
            for ShardRange { item, range, .. } in self.of(rank, round) {
                let contributions = &of_items[*item];
                let item = &self.items[*item];
                to += match item.sent {
                    WireForm::Sum => packing.add_sum(sources, item, range, contributions, to),
                    WireForm::Contributions(_) => {
                        packing.add_copies(sources, item, range, contributions, to)?
                    }
                };
            }
        }
        packing.copies.retain(|(from, _)| from.elements() > 0);
        packing.sums.retain(|sum| sum.gradient.elements > 0);
        Ok(packing)
    }
}

impl Packing {
    /// Adds the sum of a `range` of a variable's contributions, to be written to `to`. Returns how
    /// many bytes it takes.
    fn add_sum(
        &mut self,
        sources: &GradientSources<'_>,
        item: &ShardedVariable,
        range: &Range<usize>,
        contributions: &[DeviceContribution],
        to: Address,
    ) -> Address {
        let accumulated = sources.accumulation.of_variable(item.index);
        if accumulated.is_none() && contributions.is_empty() {
            return 0;
        }
        let offset = (range.start * size_of::<f64>()) as Address;
        let wire = sources.gradient_dtype(item.dtype);
        let gradient = Gradient {
            dtype: item.dtype,
            elements: range.len() as u64,
            gradient_dtype: wire,
            contributions: &[],
            accumulated: accumulated.map(|sum| sum.place().address + offset),
            divisor: 1.0,
        };
        self.sums.push(RangeSum {
            gradient,
            contributions: contributions_to(range, contributions, wire).collect(),
            to,
        });
        padded(range.len() * item.wire_size()) as Address
    }

    /// Adds a copy of a `range` of each of a variable's contributions, to be written one after the
    /// other from `to` on. Returns how many bytes they take.
    fn add_copies(
        &mut self,
        sources: &GradientSources<'_>,
        item: &ShardedVariable,
        range: &Range<usize>,
        contributions: &[DeviceContribution],
        to: Address,
    ) -> Result<Address> {
        let wire = sources.gradient_dtype(item.dtype);
        let layout = Layout::row_major(Shape::new(&[range.len()])?);
        let place = |address| DevicePlace {
            address,
            dtype: wire,
            layout,
        };
        let size = padded(range.len() * item.wire_size()) as Address;
        let mut end = to;
        for contribution in contributions_to(range, contributions, wire) {
            self.copies.push((place(contribution.gradient), place(end)));
            end += size;
        }
        Ok(end - to)
    }
}

/// The contributions to a range, which begin in the middle of those to its variable, of type
/// `wire`.
fn contributions_to(
    range: &Range<usize>,
    contributions: &[DeviceContribution],
    wire: DType,
) -> impl Iterator<Item = DeviceContribution> {
    let offset = (range.start * wire.size()) as Address;
    contributions
        .iter()
        .map(move |contribution| DeviceContribution {
            gradient: contribution.gradient + offset,
            factor: contribution.factor,
        })
}
