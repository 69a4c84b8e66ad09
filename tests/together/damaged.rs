//! Messages of another rank that are not what it has sent: a status that names the rank, and
//! neither a panic nor memory for what was never announced.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use umbo_core::cluster::communicator::{Communicator, EngineCall, Incoming, RankPlace};
use umbo_core::error::{Error, Result, Status};
use umbo_core::optimizer::gradients::reduced::reduced;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::{GradientsOptions, Optimizer, apply};
use umbo_core::strategy::variables::{self, Initial};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::values::Value;
use umbo_core::values::variable::Aggregation;

use super::dividing::{contribute, gradients};
use super::engine::{Rank, ranks};
use super::{named, options, tensor};

/// A rank that receives one word of rank 1 otherwise. Its votes come out as if a rank had failed,
/// so that all descriptors are exchanged.
struct Damaging {
    rank: Arc<Rank>,
    /// The gathering, counted from 0, the word of what rank 1 sends in it, and which bits are
    /// turned.
    at: (usize, usize, u64),
    gathered: AtomicUsize,
    /// How many words rank 1 has sent in that.
    words: AtomicUsize,
}

/// Where this rank expects other numbers of bytes than rank 1 sends, an engine that looks says so.
/// The tests' one asserts that there are as many.
fn matched(exchange: impl FnOnce() -> Result<()>) -> Result<()> {
    let exchanged = catch_unwind(AssertUnwindSafe(exchange));
    exchanged.unwrap_or_else(|_| Err(Error::DataLoss("rank 1 sends other bytes".into())))
}

impl Communicator for Damaging {
    fn place(&self) -> RankPlace {
        self.rank.place()
    }

    fn call(&self, call: EngineCall<'_>) -> Result<()> {
        if let EngineCall::Vote(vote) = call {
            let voted = matched(|| self.rank.call(EngineCall::Vote(&mut *vote)));
            vote.least = -i64::MAX;
            return voted;
        }
        let EngineCall::AllGather {
            send,
            receive: Incoming::Host(receive),
            counts,
        } = call
        else {
            return matched(|| self.rank.call(call));
        };
        let to = Incoming::Host(&mut *receive);
        matched(|| {
            self.rank.call(EngineCall::AllGather {
                send,
                receive: to,
                counts,
            })
        })?;
        let (call, word, bits) = self.at;
        if self.gathered.fetch_add(1, Ordering::Relaxed) == call {
            self.words.store(counts[1].div_ceil(8), Ordering::Relaxed);
            let of_rank = &mut receive[counts[0]..counts[0] + counts[1]];
            if let Some(word) = of_rank.chunks_exact_mut(8).nth(word) {
                let turned = u64::from_le_bytes((&*word).try_into().unwrap()) ^ bits;
                word.copy_from_slice(&turned.to_le_bytes());
            }
        }
        Ok(())
    }

    fn abort(&self, why: &Error) {
        self.rank.abort(why);
    }
}

/// Gathers, looks at gradients of both kinds, and applies them.
fn train(strategy: &Strategy) -> Result<()> {
    let make = |name: &str, shape: &[usize]| {
        let value = tensor(&vec![0.5f32; shape.iter().product()], shape);
        variables::create(
            Some(strategy),
            named(name, Aggregation::None),
            Initial::Value(&value),
        )
    };
    let variables = [make("dense", &[5])?, make("rows", &[6, 4])?];
    let options = GradientsOptions {
        row_sparse: &[false, true],
        ..GradientsOptions::default()
    };
    let gradients = gradients(strategy, &variables, options);
    let rule = Adam::new(0.9, 0.999, 1e-7)?;
    let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.1)?;
    let callback = |context: &ReplicaContext| {
        contribute(context, &gradients, 0)?;
        context
            .all_gather(Value::Tensor(tensor(&[1f32, 2.0], &[1, 2])), 0)
            .map(Some)
    };
    strategy.run(&callback, None)?;
    for index in 0..variables.len() {
        reduced(&gradients, index, None)?;
    }
    apply(&optimizer, &gradients).map(drop)
}

/// What becomes of rank 0, and how many gatherings there were, or words in the one that was
/// damaged.
fn damaged(replicas_in_sync: usize, at: (usize, usize, u64)) -> (Result<()>, usize, usize) {
    let ranks = ranks(2);
    let engine = |rank: usize, at| {
        Arc::new(Damaging {
            rank: Arc::clone(&ranks[rank]),
            at,
            gathered: AtomicUsize::new(0),
            words: AtomicUsize::new(0),
        })
    };
    let damaging = engine(0, at);
    let communicators: [Arc<dyn Communicator>; 2] =
        [Arc::clone(&damaging) as _, engine(1, (usize::MAX, 0, 0))];
    let outcome = std::thread::scope(|scope| {
        let [first, _] = communicators.map(|communicator| {
            scope.spawn(move || {
                let made = Strategy::new(&Options {
                    communicator: Some(Arc::clone(&communicator)),
                    replicas_in_sync,
                    ..options(1)
                });
                let outcome = made.and_then(|strategy| train(&strategy));
                if let Err(error) = &outcome {
                    communicator.abort(error);
                }
                outcome
            })
        });
        first.join().unwrap()
    });
    let [gathered, words] =
        [&damaging.gathered, &damaging.words].map(|count| count.load(Ordering::Relaxed));
    (outcome, gathered, words)
}

#[test]
fn what_another_rank_has_not_sent_is_refused_or_believed_and_never_a_panic() {
    for in_sync in [0, 4] {
        let (outcome, gatherings, _) = damaged(in_sync, (usize::MAX, 0, 0));
        outcome.unwrap();
        let mut refused = 0;
        let mut payloads = 0;
        for call in 0..gatherings {
            let mut word = 0;
            loop {
                let bits = [1 << 33, u64::MAX, 1, 1 << 63][(call + word) % 4];
                let (outcome, _, words) = damaged(in_sync, (call, word, bits));
                // Descriptors, which is 256 bytes and nothing else here, are never believed.
                let is_descriptor = words == 32;
                if let Err(error) = &outcome {
                    let text = error.to_string();
                    assert_ne!(error.status(), Status::Internal, "{call}, {word}: {text}");
                    assert!(text.contains("rank 1"), "{call}, {word}: {text}");
                    refused += 1;
                }
                assert!(outcome.is_err() || !is_descriptor, "{call}, {word}");
                payloads += usize::from(!is_descriptor);
                // Descriptors are all alike: whose they are, the length, the checksum and the text.
                word = match is_descriptor {
                    true => {
                        [8, 9, 20, words][[0, 8, 9, 20].iter().position(|&at| at == word).unwrap()]
                    }
                    false => word + 1 + word / 8,
                };
                if word >= words {
                    break;
                }
            }
        }
        assert!(
            refused > 50 && payloads > 30,
            "{refused} refused, {payloads} payloads"
        );
    }
}
