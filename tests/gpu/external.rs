//! Streams and memory pools of the program's, which are those of their GPU or are refused.

use std::ptr;

use cudarc::driver::{result, sys};
use fake_cuda::harness::under_driver;
use umbo_core::device::cuda::external::{check_pool, check_stream};

use super::*;

const CARDS: u32 = 3;

/// Asks of a card whether a stream, or else a pool, is its own.
type Ask = fn(u32, usize, usize) -> Result<()>;

/// A stream and a memory pool of each card, as the program makes them.
fn made() -> Vec<(usize, usize)> {
    let of_card = |card| {
        // SAFETY: the card is there; what is made stays for as long as the process lives.
        unsafe {
            let device = result::device::get(card).unwrap();
            let context = result::primary_ctx::retain(device).unwrap();
            result::ctx::set_current(context).unwrap();
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
            let pool = result::device::get_default_mem_pool(device).unwrap();
            result::ctx::set_current(ptr::null_mut()).unwrap();
            (stream.expose_provenance(), pool.expose_provenance())
        }
    };
    assert_eq!(registry::REGISTRY.physical_count(DeviceKind::Gpu), CARDS);
    (0..CARDS as i32).map(of_card).collect()
}

/// Before their cards are opened, after, and through the calls that set them.
#[test]
fn streams_and_pools_are_those_of_their_gpu() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "3")]) else {
        return;
    };
    let made = made();
    let check = || {
        for (card, name) in (0..CARDS).map(|card| (card, format!("GPU {card}"))) {
            for (other, &(stream, pool)) in (0..CARDS).zip(&made) {
                if card == other {
                    check_stream(card, stream).unwrap();
                    check_pool(card, pool).unwrap();
                    continue;
                }
                let told = ["stream: ", "of another GPU", &name];
                refused(check_stream(card, stream), Status::InvalidArgument, &told);
                let told = ["pool: ", "of another GPU", &name];
                refused(check_pool(card, pool), Status::InvalidArgument, &told);
            }
            // The default stream is the context's own; that of each thread is none.
            check_stream(card, 1).unwrap();
            refused(
                check_stream(card, 2),
                Status::InvalidArgument,
                &["stream: ", "each thread"],
            );
        }
    };
    check();
    // Which the split of another card changes nothing of.
    registry::REGISTRY.split_gpu(0, &[None, None]).unwrap();
    let of_card = [0..2, 2..3, 3..4];
    for (card, parts) in of_card.clone().into_iter().enumerate() {
        for part in parts.map(gpu) {
            let (stream, pool) = made[(card + 1) % 3];
            let set = registry::set_stream(part, Some(stream));
            refused(set, Status::InvalidArgument, &["stream: ", "another GPU"]);
            registry::set_stream(part, Some(made[card].0)).unwrap();
            let set = registry::set_memory_pool(part, Some(pool));
            refused(set, Status::InvalidArgument, &["pool: ", "another GPU"]);
            registry::set_memory_pool(part, Some(made[card].1)).unwrap();
        }
    }
    registry::REGISTRY
        .split_gpu(1, &[None, Some(1 << 20), None])
        .unwrap();
    let all = [0, 1, 2, 5].into_iter().zip([0, 0, 1, 2]);
    for (index, card) in all {
        let there = registry::gpu(gpu(index)).unwrap();
        assert_eq!(there.card().ordinal(), card);
        assert_eq!(there.stream().addr(), made[card as usize].0);
        assert_eq!(numbers(&tensor(&[1.0, 2.0], gpu(index))), [1.0, 2.0]);
    }
    for index in [3, 4] {
        let own_stream = registry::gpu(gpu(index)).unwrap().stream().addr();
        assert!(made.iter().all(|&(stream, _)| stream != own_stream));
    }
    check();
    clean(&control);
}

/// Whatever call of the driver fails while it is asked, the answer is an error and the thread's
/// context stays.
#[test]
fn questions_that_fail_leave_the_context_as_it_was() {
    let settings = [("FAKE_CUDA_DEVICES", "3"), ("FAKE_CUDA_QUIET", "1")];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    let made = made();
    let current = || result::ctx::get_current().unwrap();
    let asks: [Ask; 2] = [
        |card, stream, _| check_stream(card, stream),
        |card, _, pool| check_pool(card, pool),
    ];
    for ask in asks {
        control.fault("");
        let (stream, pool) = made[1];
        ask(1, stream, pool).unwrap();
        let calls = control.calls("*");
        assert!(calls > 2, "{calls}");
        for number in 1..=calls {
            for code in [1, 2, 3, 400] {
                control.fault(&format!("*:{number}:{code}"));
                let answer = ask(1, stream, pool);
                control.fault("");
                if let Err(error) = answer {
                    let found = error.status();
                    assert!(
                        matches!(found, Status::Unavailable | Status::InvalidArgument),
                        "{error}"
                    );
                }
                assert_eq!(current(), None, "call {number}, code {code}");
            }
        }
    }
    // A handle that is none.
    let (_, pool) = made[0];
    let told = ["stream: ", "no stream", "CUDA error 400"];
    refused(check_stream(0, pool), Status::InvalidArgument, &told);
    let (stream, _) = made[0];
    refused(
        check_pool(0, stream),
        Status::InvalidArgument,
        &["pool: ", "no memory pool"],
    );
    drop(control.take_reports());
}

/// A pool of another card that this one may use passes, and what cannot be allocated from it names
/// it.
#[test]
fn what_a_pool_refuses_names_it() {
    let settings = [("FAKE_CUDA_DEVICES", "3"), ("FAKE_CUDA_QUIET", "1")];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    let (_, pool) = made()[0];
    let access = sys::CUmemAccessDesc {
        location: sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: 1,
        },
        flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    // SAFETY: the pool lives, and there is one description.
    let set = unsafe {
        sys::cuMemPoolSetAccess(ptr::with_exposed_provenance_mut(pool), &raw const access, 1)
    };
    set.result().unwrap();
    registry::set_memory_pool(gpu(1), Some(pool)).unwrap();
    // This driver lends no pool to streams of other cards.
    let refusal = Tensor::from_slice(&[1.0f32], shape(&[1]), gpu(1));
    refused(
        refusal,
        Status::Unavailable,
        &["GPU:1 from the memory pool that it was given"],
    );
    drop(control.take_reports());
}
