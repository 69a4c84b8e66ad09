//! Shards of gradients on a GPU: kernels pack what a rank sends, as [`Shards::pack`] does in host
//! memory, and one copy brings it to the host.

#![expect(unsafe_code, reason = "kernels get addresses")]

use super::buffers::{AlignedBytes, padded};
use super::shards::{ShardRange, Shards};
use super::wire_form::WireForm;
use crate::apply::sources::GradientSources;
use umbo_base::error::Result;
use umbo_device::cuda::gpu::Gpu;
use umbo_kernels::cuda::{Address, GpuContribution, GpuPlace, Gradient, on_gpu};
use umbo_kernels::dtype::DType;
use umbo_kernels::layout::{Layout, Shape};
use umbo_tensor::Tensor;

/// The operation by which kernels pack the data that a rank sends.
#[derive(Default)]
struct Packing {
    copies: Vec<(GpuPlace, GpuPlace)>,
    sums: Vec<RangeSum>,
}

/// The sum of some replicas' contributions to a range of a variable. The contributions are listed
/// beside the gradient that they make.
struct RangeSum {
    gradient: Gradient<'static>,
    contributions: Vec<GpuContribution>,
    to: Address,
}

impl Shards {
    /// As [`Shards::pack`], for gradients on `gpu`.
    pub(crate) fn pack_on_gpu(
        &self,
        gpu: &'static Gpu,
        round: usize,
        sources: &GradientSources<'_>,
        send: &mut AlignedBytes,
    ) -> Result<()> {
        let bytes: usize = self.counts(round).0.iter().sum();
        if bytes == 0 {
            return Ok(());
        }
        let packed = Tensor::zeros(DType::UInt8, Shape::new(&[bytes])?, gpu.id())?;
        self.pack_with_kernels(gpu, round, sources, packed.place().address)?;
        packed.copy_to_host(&mut send.bytes_mut()[..bytes])
    }

    /// Packs with kernels what this rank sends in a round, into fresh memory of the GPU from
    /// `start` on.
    pub(super) fn pack_with_kernels(
        &self,
        gpu: &'static Gpu,
        round: usize,
        sources: &GradientSources<'_>,
        start: Address,
    ) -> Result<()> {
        let packing = self.plan_on_gpu(round, sources, start)?;
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
        // SAFETY: contributions and accumulated sums stay on the GPU until the apply, which has
        // claimed them, is over; the fresh tensor belongs to this call, and the ranges that
        // are written do not overlap.
        on_gpu(gpu, |launcher| unsafe {
            launcher.copy(&packing.copies)?;
            launcher.accumulate(&sums)
        })
    }

    /// The copies and sums that write what this rank sends in a round, from `start` on.
    fn plan_on_gpu(
        &self,
        round: usize,
        sources: &GradientSources<'_>,
        start: Address,
    ) -> Result<Packing> {
        let Packing {
            mut copies,
            mut sums,
        } = Packing::default();
        let of_items: Vec<Vec<GpuContribution>> = self
            .items
            .iter()
            .map(|item| sources.contributions_on_gpu(item.index))
            .collect();
        let mut to = start;
        for rank in 0..self.shard_ranges.len() {
            for ShardRange { item, range, .. } in self.of(rank, round) {
                let (item, contributions) = (&self.items[*item], &of_items[*item]);
                let elements = range.len();
                let room = padded(elements * item.wire_size()) as Address;
                let wire = sources.gradient_dtype(item.dtype);
                // The contributions to the range, which begin in the middle of those to the
                // variable.
                let offset = (range.start * wire.size()) as Address;
                let mut within =
                    contributions
                        .iter()
                        .map(|&GpuContribution { gradient, factor }| GpuContribution {
                            gradient: gradient + offset,
                            factor,
                        });
                if item.sent == WireForm::Sum {
                    let accumulated = sources.accumulation.of_variable(item.index);
                    let offset = (range.start * size_of::<f64>()) as Address;
                    let accumulated = accumulated.map(|sum| sum.place().address + offset);
                    if accumulated.is_some() || !contributions.is_empty() {
                        let gradient = Gradient {
                            dtype: item.dtype,
                            elements: elements as u64,
                            gradient_dtype: wire,
                            contributions: &[],
                            accumulated,
                            divisor: 1.0,
                        };
                        sums.push(RangeSum {
                            gradient,
                            contributions: within.collect(),
                            to,
                        });
                        to += room;
                    }
                    continue;
                }
                let layout = Layout::row_major(Shape::new(&[elements])?);
                let place = |address| GpuPlace {
                    address,
                    dtype: wire,
                    layout,
                };
                within.by_ref().for_each(|contribution| {
                    copies.push((place(contribution.gradient), place(to)));
                    to += room;
                });
            }
        }
        copies.retain(|(from, _)| from.elements() > 0);
        sums.retain(|sum| sum.gradient.elements > 0);
        Ok(Packing { copies, sums })
    }
}
