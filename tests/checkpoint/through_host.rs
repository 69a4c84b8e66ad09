//! What a rule's function for CPUs does, done for a GPU's variable by way of the host: the bits are
//! the same.

use umbo_core::device::registry;
use umbo_core::error::Result;
use umbo_core::kernels::update::tiles::Tile;
use umbo_core::optimizer::rules::Rates;
use umbo_core::optimizer::rules::{CustomUpdate, QueueUpdate};

/// The function of a rule, for GPUs.
pub fn through_host(
    update: impl Fn(&Tile<'_>, &Rates, u64) + Send + Sync + 'static,
) -> Box<QueueUpdate> {
    Box::new(move |tile: &CustomUpdate<'_>| -> Result<()> {
        let gpu = registry::gpu(tile.device)?;
        assert_eq!(tile.stream, gpu.stream().cast());
        let bytes = tile.elements * tile.dtype.size();
        // Of the largest alignment that elements have.
        let down = |address: u64| -> Result<Vec<u64>> {
            let mut words = vec![0u64; bytes.div_ceil(8)];
            // SAFETY: as many bytes are there on both sides.
            unsafe { gpu.download(address, words.as_mut_ptr().cast(), bytes) }?;
            Ok(words)
        };
        let mut weights = down(tile.weights)?;
        let gradient = down(tile.gradient)?;
        let mut slots = tile
            .slots
            .iter()
            .map(|&slot| down(slot))
            .collect::<Result<Vec<_>>>()?;
        let pointers: Vec<*mut u8> = slots
            .iter_mut()
            .map(|slot| slot.as_mut_ptr().cast())
            .collect();
        update(
            &Tile {
                dtype: tile.dtype,
                start: 0,
                elements: tile.elements,
                weights: weights.as_mut_ptr().cast(),
                gradient: gradient.as_ptr().cast(),
                slots: &pointers,
            },
            &tile.rates,
            tile.step,
        );
        let written =
            std::iter::once((tile.weights, &weights)).chain(tile.slots.iter().copied().zip(&slots));
        for (address, words) in written {
            // SAFETY: as above.
            unsafe { gpu.upload(words.as_ptr().cast(), address, bytes) }?;
        }
        Ok(())
    })
}
