//! Several ranks, and looks at gradients, while memory is short: what has a size that the program decides fails, and is
//! there when it is tried again.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use umbo::cluster::communicator::{Communicator, EngineCall, RankPlace};
use umbo::device::DeviceId;
use umbo::error::{Error, Result, Status};
use umbo::optimizer::adam::Adam;
use umbo::optimizer::reduced::reduced;
use umbo::optimizer::{GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, apply};
use umbo::strategy::variables::{self, Initial};
use umbo::strategy::{Options, ReplicaContext, Strategy};
use umbo::tensor::{Element, Shape, Tensor};
use umbo::values::Value;
use umbo::values::variable::Aggregation;

use crate::allocator::{LARGE, refusing};

/// The memory of so many numbers may be refused.
const COUNT: usize = LARGE / 4;

/// One of two ranks, which are threads. What it sends lies in memory that exists already.
struct Rank {
    rank: usize,
    sent: Arc<[Mutex<Vec<u8>>; 2]>,
    to_other: Mutex<Sender<()>>,
    from_other: Mutex<Receiver<()>>,
}

impl Rank {
    fn both() -> [Arc<Rank>; 2] {
        let sent = Arc::new([(); 2].map(|()| Mutex::new(Vec::with_capacity(64 * COUNT))));
        let ((to_first, of_first), (to_second, of_second)) = (channel(), channel());
        let rank = |rank, (to, from)| {
            let (to_other, from_other) = (Mutex::new(to), Mutex::new(from));
            Arc::new(Rank { rank, sent: Arc::clone(&sent), to_other, from_other })
        };
        [rank(0, (to_second, of_first)), rank(1, (to_first, of_second))]
    }

    fn meet(&self) -> Result<()> {
        let is_gone = |_| Error::Unavailable("the other rank does not come".into());
        self.to_other.lock().unwrap().send(()).unwrap();
        self.from_other.lock().unwrap().recv_timeout(Duration::from_secs(20)).map_err(is_gone)
    }

    /// Calls `take` with what each rank sends.
    fn exchange(&self, own: &[u8], take: impl FnOnce([&[u8]; 2])) -> Result<()> {
        let fill = |place: &mut Vec<u8>| {
            place.clear();
            assert!(own.len() <= place.capacity());
            place.extend_from_slice(own);
        };
        fill(&mut self.sent[self.rank].lock().unwrap());
        self.meet()?;
        take([&self.sent[0].lock().unwrap()[..], &self.sent[1].lock().unwrap()[..]]);
        self.meet()
    }
}

impl Communicator for Rank {
    fn place(&self) -> RankPlace {
        RankPlace { rank: self.rank, size: 2, node_rank: self.rank, node_size: 2 }
    }

    fn call(&self, call: EngineCall<'_>) -> Result<()> {
        match call {
            EngineCall::AllToAll { send, send_counts, receive, receive_counts } => {
                let (first, second) = receive.on_host()?.split_at_mut(receive_counts[0]);
                assert_eq!(send_counts[self.rank], receive_counts[self.rank]);
                // The part for rank 0 comes first.
                let part = |sent: &[u8], to: &mut [u8]| {
                    let start = if self.rank == 0 { 0 } else { sent.len() - to.len() };
                    to.copy_from_slice(&sent[start..start + to.len()]);
                };
                self.exchange(send.on_host()?, |sent| {
                    part(sent[0], first);
                    part(sent[1], second);
                })
            }
            EngineCall::AllGather { send, receive, counts } => {
                let (first, second) = receive.on_host()?.split_at_mut(counts[0]);
                self.exchange(send.on_host()?, |sent| {
                    first.copy_from_slice(sent[0]);
                    second.copy_from_slice(sent[1]);
                })
            }
            EngineCall::Broadcast { bytes, root } => {
                let own = bytes.to_vec();
                self.exchange(&own, |sent| bytes.copy_from_slice(sent[root]))
            }
            EngineCall::Vote(vote) => self.exchange(&vote.least.to_ne_bytes(), |sent| {
                let numbers = sent.map(|bytes| i64::from_ne_bytes(bytes.try_into().unwrap()));
                (vote.least, vote.greatest) =
                    (numbers[0].min(numbers[1]), numbers[0].max(numbers[1]));
            }),
            EngineCall::Barrier => self.exchange(&[], |_| {}),
        }
    }

    fn abort(&self, _: &Error) {}
}

fn tensor<T: Element>(values: &[T]) -> Tensor {
    Tensor::from_slice(values, Shape::new(&[values.len()]).unwrap(), DeviceId::HOST).unwrap()
}

fn fill(to: &Tensor, from: &Tensor) {
    // SAFETY: it is the replica's alone.
    unsafe { to.assume_exclusive() }.copy_from(from).unwrap();
}

/// Attempts it while each of the large requests for memory in turn is refused to rank 0; how often an attempt failed. `next`
/// prepares for the attempt after one that did not.
fn at_each_request(
    rank: Option<&Rank>,
    what: &str,
    next: &dyn Fn(),
    attempt: &dyn Fn() -> Result<()>,
) -> usize {
    let mut failures = 0;
    for number in 0.. {
        let (done, is_refused) = match rank {
            Some(Rank { rank: 1, .. }) => (attempt(), false),
            _ => {
                let (done, left) = refusing(number, attempt);
                (done, left == usize::MAX)
            }
        };
        let mut goes_on = is_refused;
        let tell = |rank: &Rank| rank.exchange(&[is_refused.into()], |all| goes_on = all[0] == [1]);
        rank.map_or(Ok(()), tell).unwrap();
        match done {
            Ok(()) if !goes_on => return failures,
            Ok(()) => next(),
            Err(error) => {
                failures += 1;
                let status = error.status();
                assert_eq!(status, Status::ResourceExhausted, "{what}, {number}: {error}");
            }
        }
    }
    unreachable!()
}

/// What is tried, on one rank.
fn rank_alone_or_with(rank: Option<&Arc<Rank>>, accumulation_steps: u64) {
    let communicator = rank.map(|rank| Arc::clone(rank) as Arc<dyn Communicator>);
    let options =
        Options { cpu_replicas: 1, bind_threads: false, communicator, ..Options::default() };
    let strategy = Strategy::new(&options).unwrap();
    let make = |name: &str| {
        let new = crate::fresh::new_variable(name, Aggregation::None);
        let initial = tensor(&vec![1f32; COUNT]);
        variables::create(Some(&strategy), new, Initial::Value(&initial)).unwrap()
    };
    let gradients = Gradients::new(
        strategy.id(),
        strategy.replica_devices(),
        vec![make("dense"), make("rows")],
        LossReduction::Mean,
        GradientsOptions {
            row_sparse: &[false, true],
            accumulation_steps,
            ..GradientsOptions::default()
        },
    );
    let gradients = gradients.unwrap();
    let rule = Box::new(Adam::new(0.9, 0.999, 1e-7).unwrap());
    let optimizer = Optimizer::new(strategy.id(), rule, 0.1).unwrap();
    let step = |context: &ReplicaContext| {
        let view = gradients.view_in(context, 0, GradientMode::Overwrite)?;
        fill(view, &tensor(&vec![1f32; COUNT]));
        let added = gradients.add_rows_in(context, 1, COUNT)?;
        fill(&added.indices, &tensor(&(0..COUNT as i64).collect::<Vec<_>>()));
        fill(&added.values, &tensor(&vec![0.5f32; COUNT]));
        gradients.submit_in(context, Some(1.0))?;
        Ok(None)
    };
    let run = || strategy.run(&step, None).map(drop).unwrap();
    let look = |index| reduced(&gradients, index, None).map(drop);
    let update = || apply(&optimizer, &gradients).map(drop);
    for number in 0..accumulation_steps {
        let at = |what: &str, next: &dyn Fn(), attempt: &dyn Fn() -> Result<()>| {
            let what = format!("{what}, run {number} of {accumulation_steps}");
            at_each_request(rank.map(|rank| &**rank), &what, next, attempt)
        };
        run();
        assert!(at("a look at a dense gradient", &|| {}, &|| look(0)) > 0);
        assert!(at("a look at rows", &|| {}, &|| look(1)) > 1);
        at("an apply", &run, &update);
        let large = Value::Tensor(tensor(&vec![1f32; COUNT]));
        let gather = |context: &ReplicaContext| context.all_gather(large.clone(), 0).map(Some);
        at("a gather", &|| {}, &|| strategy.run(&gather, None).map(drop));
    }
}

#[test]
fn sizes_of_the_program_s_fail_and_may_be_tried_again() {
    let true = crate::is_alone(sizes_of_the_program_s_fail_and_may_be_tried_again) else { return };
    rank_alone_or_with(None, 1);
    for accumulation_steps in [1, 2] {
        let [first, second] = Rank::both();
        let second = thread::spawn(move || rank_alone_or_with(Some(&second), accumulation_steps));
        rank_alone_or_with(Some(&first), accumulation_steps);
        second.join().unwrap();
    }
}
