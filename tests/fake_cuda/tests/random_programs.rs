//! Random programs over streams, events and waits of the host, beside a model that knows for each
//! operation the set of all that are finished before it. The driver reports a race exactly where
//! the model has two conflicting operations without an order, and where there is none the bytes
//! are those of the program run line by line.

mod programs;

use cudarc::driver::{result, sys};
use fake_cuda::harness::under_driver;
use programs::*;

/// A generator for the programs, apart from the one that orders them.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % bound
    }
}

/// Operations by number.
type Set = Vec<bool>;

fn join(into: &mut Set, other: &Set) {
    into.resize(into.len().max(other.len()), false);
    for (mine, theirs) in into.iter_mut().zip(other) {
        *mine |= theirs;
    }
}

struct Access {
    buffer: usize,
    bytes: std::ops::Range<usize>,
    write: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Default,
    Blocking,
    Free,
}

/// What is finished, as CUDA promises it.
struct Model {
    kinds: Vec<Kind>,
    /// For each stream what is finished when everything on it is.
    streams: Vec<Set>,
    events: Vec<Option<Set>>,
    host: Set,
    /// What each operation touches, and what is finished before it.
    operations: Vec<(Vec<Access>, Set)>,
}

impl Model {
    fn operation(&mut self, stream: usize, accesses: Vec<Access>) {
        let mut before = self.host.clone();
        for (other, kind) in self.kinds.iter().enumerate() {
            let waits = other == stream
                || self.kinds[stream] == Kind::Default && *kind == Kind::Blocking
                || self.kinds[stream] == Kind::Blocking && *kind == Kind::Default;
            if waits {
                join(&mut before, &self.streams[other]);
            }
        }
        let number = self.operations.len();
        let mut after = before.clone();
        after.resize(number + 1, false);
        after[number] = true;
        self.streams[stream] = after;
        self.operations.push((accesses, before));
    }

    fn has_race(&self) -> bool {
        self.operations.iter().enumerate().any(|(later, (accesses, before))| {
            (0..later).filter(|earlier| !before.get(*earlier).copied().unwrap_or(false)).any(
                |earlier| {
                    self.operations[earlier].0.iter().any(|one| {
                        accesses.iter().any(|two| {
                            one.buffer == two.buffer
                                && (one.write || two.write)
                                && one.bytes.start < two.bytes.end
                                && two.bytes.start < one.bytes.end
                        })
                    })
                },
            )
        })
    }
}

const BUFFERS: usize = 4;
const BYTES: usize = 48;
const EVENTS: usize = 4;

#[test]
fn races_are_exactly_those_of_the_model() {
    let Some(control) = under_driver(&[("FAKE_CUDA_QUIET", "1")]) else { return };
    device(0);
    let (mut racy, mut clean_runs) = (0, 0);
    for program in 0..4000u64 {
        let mut dice = Dice(program * 2 + 0x1234_5677);
        control.seed(program);
        let kinds = [Kind::Default, Kind::Blocking, Kind::Free, Kind::Free];
        let streams: Vec<sys::CUstream> = kinds
            .iter()
            .map(|kind| match kind {
                Kind::Default => DEFAULT_STREAM,
                Kind::Blocking => {
                    result::stream::create(result::stream::StreamKind::Default).unwrap()
                }
                Kind::Free => stream(),
            })
            .collect();
        let events: Vec<sys::CUevent> = (0..EVENTS).map(|_| event()).collect();
        let buffers: Vec<u64> = (0..BUFFERS).map(|_| allocate(BYTES)).collect();
        let mut bytes = vec![vec![0u8; BYTES]; BUFFERS];
        for buffer in &buffers {
            fill(*buffer, 0, BYTES, DEFAULT_STREAM).unwrap();
        }
        result::ctx::synchronize().unwrap();
        let mut model = Model {
            kinds: kinds.to_vec(),
            streams: vec![vec![]; kinds.len()],
            events: vec![None; EVENTS],
            host: vec![],
            operations: vec![],
        };
        // Some programs have few streams or narrow ranges, so that many have no race.
        let used = 1 + dice.roll(kinds.len());
        let widest = 1 + dice.roll(BYTES / 2);
        for _ in 0..5 + dice.roll(25) {
            let on = dice.roll(used) + usize::from(used < 3 && program % 2 == 0);
            let (buffer, mark) = (dice.roll(BUFFERS), dice.roll(EVENTS));
            let start = dice.roll(BYTES - widest);
            let range = start..start + 1 + dice.roll(widest);
            match dice.roll(9) {
                0 | 1 => {
                    let value = dice.roll(256) as u8;
                    let at = buffers[buffer] + range.start as u64;
                    fill(at, value, range.len(), streams[on]).unwrap();
                    bytes[buffer][range.clone()].fill(value);
                    model.operation(on, vec![Access { buffer, bytes: range, write: true }]);
                }
                2 => {
                    let values: Vec<u8> = range.clone().map(|_| dice.roll(256) as u8).collect();
                    upload(buffers[buffer] + range.start as u64, &values, streams[on]).unwrap();
                    bytes[buffer][range.clone()].copy_from_slice(&values);
                    model.operation(on, vec![Access { buffer, bytes: range, write: true }]);
                }
                3 | 4 => {
                    let other = (buffer + 1 + dice.roll(BUFFERS - 1)) % BUFFERS;
                    let to = dice.roll(BYTES - range.len() + 1);
                    let to = to..to + range.len();
                    let from = buffers[buffer] + range.start as u64;
                    copy(buffers[other] + to.start as u64, from, to.len(), streams[on]).unwrap();
                    let moved = bytes[buffer][range.clone()].to_vec();
                    bytes[other][to.clone()].copy_from_slice(&moved);
                    let accesses = vec![
                        Access { buffer, bytes: range, write: false },
                        Access { buffer: other, bytes: to, write: true },
                    ];
                    model.operation(on, accesses);
                }
                5 => {
                    record(events[mark], streams[on]);
                    model.operation(on, vec![]);
                    model.events[mark] = Some(model.streams[on].clone());
                }
                6 | 7 => {
                    wait(streams[on], events[mark]);
                    if let Some(done) = model.events[mark].clone() {
                        join(&mut model.streams[on], &done);
                        // The wait has a place in the stream, which the default stream sees.
                        model.operation(on, vec![]);
                    }
                }
                _ if dice.roll(2) == 0 => {
                    synchronize(streams[on]).unwrap();
                    // Waiting for the default stream waits for what it waits for.
                    let done = model.streams[on].clone();
                    join(&mut model.host, &done);
                }
                _ => {
                    // SAFETY: the event is alive.
                    unsafe { result::event::synchronize(events[mark]) }.unwrap();
                    let done = model.events[mark].clone();
                    done.iter().for_each(|done| join(&mut model.host, done));
                }
            }
        }
        result::ctx::synchronize().unwrap();
        let reports = control.take_reports();
        let found = reports.iter().any(|report| report.starts_with("race"));
        assert_eq!(found, !reports.is_empty(), "program {program}: {reports:?}");
        assert_eq!(found, model.has_race(), "program {program}: {reports:?}");
        if found {
            racy += 1;
        } else {
            clean_runs += 1;
            for (buffer, expected) in buffers.iter().zip(&bytes) {
                let got: Vec<u8> = download(*buffer, BYTES, DEFAULT_STREAM).unwrap();
                assert_eq!(&got, expected, "program {program}");
            }
        }
        clean(&buffers, &streams[1..], &events);
        assert_eq!(control.take_reports().len(), 0);
    }
    println!("random programs as the model says: {racy} with a race, {clean_runs} without");
    assert!(racy > 500 && clean_runs > 500, "{racy} {clean_runs}");
}
