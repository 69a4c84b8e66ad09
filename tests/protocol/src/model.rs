//! The transitions of a step, as `crates/umbo-strategy` has them, and of the epoch around it
//! (`crates/umbo-core/src/training/epoch.rs`).

use std::fmt;

use crate::faults::Fault;
use crate::state::{Limit, Place, Rank, Stage, State};

/// A transition's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Event {
    Take,
    PassOver,
    NoElement,
    EndOfPass,
    Enter,
    CannotEnter,
    Begin,
    NotBegun,
    Start,
    Skip,
    Hang,
    Write,
    WriteRefused,
    Arrive,
    Return,
    Fail,
    Disagree,
    Serve,
    MergeFails,
    StopWaiting,
    DisagreementFound,
    NestedCall,
    NestedTooLate,
    NestedBegin,
    NestedEnd,
    NestedAbandon,
    NestedLeave,
    MergeReturns,
    MergeSwallows,
    ReplicasReturned,
    Judge,
    JudgeFailed,
    PrepareFails,
    Commit,
    RollBack,
    Abandon,
    Leave,
    GiveBack,
    StepEnds,
    ProgressFails,
    DeadlinePasses,
    Cancel,
}

impl Event {
    pub const COUNT: usize = Event::Cancel as usize + 1;

    pub const ALL: [Event; Event::COUNT] = [
        Event::Take,
        Event::PassOver,
        Event::NoElement,
        Event::EndOfPass,
        Event::Enter,
        Event::CannotEnter,
        Event::Begin,
        Event::NotBegun,
        Event::Start,
        Event::Skip,
        Event::Hang,
        Event::Write,
        Event::WriteRefused,
        Event::Arrive,
        Event::Return,
        Event::Fail,
        Event::Disagree,
        Event::Serve,
        Event::MergeFails,
        Event::StopWaiting,
        Event::DisagreementFound,
        Event::NestedCall,
        Event::NestedTooLate,
        Event::NestedBegin,
        Event::NestedEnd,
        Event::NestedAbandon,
        Event::NestedLeave,
        Event::MergeReturns,
        Event::MergeSwallows,
        Event::ReplicasReturned,
        Event::Judge,
        Event::JudgeFailed,
        Event::PrepareFails,
        Event::Commit,
        Event::RollBack,
        Event::Abandon,
        Event::Leave,
        Event::GiveBack,
        Event::StepEnds,
        Event::ProgressFails,
        Event::DeadlinePasses,
        Event::Cancel,
    ];
}

/// A transition: the event on a rank, of a replica if that acts, and the state after it.
pub struct Move {
    pub event: Event,
    pub rank: usize,
    pub replica: Option<usize>,
    pub to: State,
    /// The property that the transition itself breaks.
    pub wrong: Option<&'static str>,
}

impl fmt::Display for Move {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "rank {}", self.rank)?;
        if let Some(replica) = self.replica {
            write!(formatter, ", replica {replica}")?;
        }
        let rank = &self.to.ranks[self.rank];
        write!(formatter, ": {:?}, then {:?}", self.event, rank.place)
    }
}

/// The size of a model, and the fault in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Model {
    pub ranks: usize,
    pub replicas: usize,
    pub elements: u8,
    /// Whether callbacks make a merge call, and whether that has a nested run.
    pub merges: bool,
    pub nests: bool,
    /// Whether the caller of an epoch that has failed ends the training.
    pub quits: bool,
    /// How many failures may come, and how many limits may be reached.
    pub failures: u8,
    pub limits: u8,
    pub fault: Option<Fault>,
}

/// The transitions of one rank from a state.
struct Moves<'a> {
    model: &'a Model,
    from: &'a State,
    rank: usize,
    replica: Option<usize>,
    found: &'a mut Vec<Move>,
}

pub const LOST: &str = "an element is lost, or counts twice";
pub const PART: &str = "a part of a step is committed";
pub const LATE: &str = "a write of an abandoned step is committed";
pub const RANKS_DIFFER: &str = "the ranks begin a step with different states or elements";
pub const DRAINING: &str = "a step opens while a callback of an abandoned one has not returned";
pub const NUMBER: &str = "the number of steps is not that of the steps that count";
pub const DEADLOCK: &str = "nothing can happen any more, and not all is done";
pub const ORDER: &str = "a step is drained before a nested one";
pub const ALONE: &str = "a merge function runs without all replicas";

impl Model {
    pub fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    pub fn start(&self) -> State {
        State {
            failures: self.failures,
            limits: self.limits,
            ..State::default()
        }
    }

    fn all(&self) -> u8 {
        (1 << self.replicas) - 1
    }

    /// Appends all transitions from a state.
    pub fn moves(&self, from: &State, found: &mut Vec<Move>) {
        for rank in 0..self.ranks {
            let mut moves = Moves {
                model: self,
                from,
                rank,
                replica: None,
                found,
            };
            moves.of_caller();
            moves.of_coordinator();
            moves.of_limits();
            for replica in 0..self.replicas {
                moves.replica = Some(replica);
                moves.of_replica(replica);
            }
        }
    }

    /// Whether the last state of a run is one in which all is done.
    pub fn is_good_end(&self, state: &State) -> Result<(), &'static str> {
        let ranks = &state.ranks[..self.ranks];
        let end = ranks[0].place;
        let ends = matches!(end, Place::Done | Place::Quit);
        if !ends || ranks.iter().any(|rank| rank.place != end) {
            return Err(DEADLOCK);
        }
        let all = (1 << self.elements) - 1;
        for rank in ranks {
            if rank.late || rank.nested_late {
                return Err(DEADLOCK);
            }
            if end == Place::Done && rank.applied | rank.passed != all {
                return Err(LOST);
            }
            if (rank.applied, rank.position) != (ranks[0].applied, ranks[0].position) {
                return Err(RANKS_DIFFER);
            }
        }
        Ok(())
    }

    /// The property that does not hold in a state.
    pub fn wrong(&self, state: &State) -> Option<&'static str> {
        state.ranks[..self.ranks].iter().find_map(|rank| {
            let is_counted = |element: u8| {
                let bit = 1 << element;
                let comes = element >= rank.position;
                let held = rank.holds && element + 1 == rank.position && rank.applied & bit == 0;
                let counts = [rank.applied & bit != 0, rank.passed & bit != 0, comes, held];
                counts.into_iter().filter(|&it| it).count() == 1
            };
            if !(0..self.elements).all(is_counted) {
                return Some(LOST);
            }
            let rests = matches!(rank.place, Place::Idle | Place::Done | Place::Quit);
            let counted = rank.applied.count_ones();
            (rests && counted != u32::from(rank.steps)).then_some(NUMBER)
        })
    }

    /// A rank has said something to all. The last one to do so settles the answer for all.
    fn settle(&self, state: &mut State) -> Option<&'static str> {
        let ranks = &mut state.ranks[..self.ranks];
        let said: [Option<Said>; 3] = std::array::from_fn(|rank| said(ranks.get(rank)?.place));
        let mut said = said[..self.ranks].iter().copied();
        let first = said.next()??;
        let agree = said.try_fold(first.agrees, |agree, said| {
            said.map(|said| agree && said.agrees && said.kind == first.kind)
        })?;
        let passes_over = ranks.iter().any(|rank| rank.place == Place::PassOverSaid)
            && !self.has(Fault::PassOverIsNotSaid);
        let is_begin = ranks.iter().all(|rank| rank.place == Place::BeginSaid);
        let alike = |rank: &Rank| (rank.applied, rank.position, rank.steps);
        let wrong = is_begin && ranks.iter().any(|rank| alike(rank) != alike(&ranks[0]));
        for rank in ranks.iter_mut() {
            rank.passes_over = passes_over;
            rank.ended = !agree && self.ranks > 1;
            self.answer(rank, agree);
        }
        wrong.then_some(RANKS_DIFFER)
    }

    /// A rank learns what all have said.
    fn answer(&self, rank: &mut Rank, agree: bool) {
        let (yes, no) = match rank.place {
            Place::BeginSaid | Place::BeginRefused => (Place::Begun, Place::NotBegun),
            Place::EndSaid => (Place::Done, Place::Idle),
            Place::NestedSaid => (Place::NestedBegun, Place::NestedFailed),
            Place::VoteSaid | Place::VoteRefused => (Place::Agreed, Place::Disagreed),
            Place::FailSaid => (Place::Failed, Place::Failed),
            Place::AbandonedSaid => (Place::AbandonedAnswered, Place::AbandonedAnswered),
            _ => (Place::Idle, Place::Idle),
        };
        let place = std::mem::replace(&mut rank.place, if agree { yes } else { no });
        if place == Place::NestedSaid && !agree {
            rank.poisoned = true;
            rank.ended &= !self.has(Fault::NestedRefusalEndsNothing);
        }
        let passes = match place {
            Place::NoElementSaid => !self.has(Fault::NoElementKeepsTheElement),
            Place::ProgressSaid => !self.has(Fault::ProgressKeepsTheElement),
            _ => false,
        };
        // A rank without an element passes over the next one, as another rank does.
        if passes && rank.passes_over && rank.position < self.elements {
            rank.passed |= 1 << rank.position;
            rank.position += 1;
        }
        if rank.place == Place::Idle {
            self.end_epoch(rank);
        }
    }

    /// The epoch has ended with an error. The caller begins another one, with limits of its own, or
    /// ends the training.
    fn end_epoch(&self, rank: &mut Rank) {
        rank.place = [Place::Idle, Place::Quit][usize::from(self.quits)];
        (rank.limit, rank.armed) = (Limit::None, false);
        (rank.passes_over, rank.ended) = (false, false);
        forget_step(rank);
    }
}

/// A rank's part of an exchange.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Said {
    kind: Kind,
    agrees: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Begin,
    End,
    Nested,
    Commit,
}

fn said(place: Place) -> Option<Said> {
    let (kind, agrees) = match place {
        Place::BeginSaid => (Kind::Begin, true),
        Place::BeginRefused | Place::PassOverSaid => (Kind::Begin, false),
        Place::NoElementSaid | Place::ProgressSaid => (Kind::Begin, false),
        Place::EndSaid => (Kind::End, true),
        Place::NestedSaid => (Kind::Nested, true),
        Place::VoteSaid => (Kind::Commit, true),
        Place::VoteRefused | Place::FailSaid | Place::AbandonedSaid => (Kind::Commit, false),
        _ => return None,
    };
    Some(Said { kind, agrees })
}

/// The next step sets these anew. Late replicas have no use for them.
fn forget_step(rank: &mut Rank) {
    (rank.verdict, rank.nested_failed) = (false, false);
    for replica in &mut rank.replicas {
        (replica.failed, replica.stop) = (false, false);
    }
}

fn roll_back(rank: &mut Rank) {
    (rank.open, rank.staged, rank.nested_staged) = (false, 0, 0);
    (rank.poisoned, rank.deferred, rank.stale) = (false, false, false);
}

impl Rank {
    /// Whether the coordinator is present in an abandoned step.
    fn is_leaving(&self) -> bool {
        use Place::{Abandoned, AbandonedAnswered, AbandonedSaid};
        matches!(self.place, Abandoned | AbandonedSaid | AbandonedAnswered)
    }

    fn is_draining(&self) -> bool {
        self.late || self.nested_late
    }

    /// The step is drained if its last thread has left.
    fn drain(&mut self) -> Option<&'static str> {
        let gone = self.replicas.iter().all(|it| it.stage == Stage::Absent);
        if self.late && gone && !self.is_leaving() {
            self.late = false;
            forget_step(self);
            return self.nested_late.then_some(ORDER);
        }
        None
    }

    /// The nested step is drained if its last thread has left.
    fn drain_nested(&mut self) {
        let gone = !self.replicas.iter().any(|it| it.stage.is_nested());
        self.nested_late &= !gone || self.place == Place::NestedAbandoned;
    }
}

impl Moves<'_> {
    fn rank(&self) -> &Rank {
        &self.from.ranks[self.rank]
    }

    fn has(&self, fault: Fault) -> bool {
        self.model.has(fault)
    }

    fn is_alone(&self) -> bool {
        self.model.ranks == 1
    }

    /// Adds a transition that changes this rank.
    fn add(&mut self, event: Event, change: impl FnOnce(&mut Rank) -> Option<&'static str>) {
        let mut to = *self.from;
        let wrong = change(&mut to.ranks[self.rank]);
        self.push(event, to, wrong);
    }

    /// The same, for one that breaks nothing by itself.
    fn go(&mut self, event: Event, change: impl FnOnce(&mut Rank)) {
        self.add(event, |rank| {
            change(rank);
            None
        });
    }

    /// The same, for one that says something to all ranks then.
    fn say(&mut self, event: Event, change: impl FnOnce(&mut Rank)) {
        self.say_at(event, 0, change);
    }

    /// The same, where it takes one of the failures that may come.
    fn say_at(&mut self, event: Event, cost: u8, change: impl FnOnce(&mut Rank)) {
        if self.from.failures < cost {
            return;
        }
        let mut to = *self.from;
        to.failures -= cost;
        let rank = &mut to.ranks[self.rank];
        change(rank);
        let silent = match rank.place {
            Place::PassOverSaid | Place::NoElementSaid => false,
            Place::EndSaid => self.has(Fault::EndIsNotSaid),
            Place::BeginSaid => self.has(Fault::BeginAlone),
            Place::BeginRefused => self.has(Fault::RefusalIsNotSaid),
            Place::ProgressSaid => self.has(Fault::ProgressIsNotSaid),
            Place::NestedSaid => self.has(Fault::NestedRunBeginsAlone) && self.rank == 0,
            Place::VoteSaid => self.has(Fault::CommitBeforeTheVotes),
            Place::FailSaid => self.has(Fault::FailureDoesNotVote),
            Place::AbandonedSaid => self.has(Fault::AbandonedStepDoesNotVote),
            _ => false,
        };
        // After a failure of one rank nothing more is exchanged in the step.
        let is_run = said(rank.place).is_some_and(|said| said.kind != Kind::Commit);
        let wrong = if rank.ended && !(is_run && rank.place != Place::NestedSaid) {
            self.model.answer(rank, false);
            None
        } else if silent {
            let agrees = said(rank.place).is_some_and(|said| said.agrees);
            self.model.answer(rank, agrees);
            None
        } else {
            self.model.settle(&mut to)
        };
        self.push(event, to, wrong);
    }

    /// Adds a transition that takes one of the failures that may come.
    fn fail(&mut self, event: Event, change: impl FnOnce(&mut Rank) -> Option<&'static str>) {
        if self.from.failures == 0 {
            return;
        }
        let mut to = *self.from;
        to.failures -= 1;
        let wrong = change(&mut to.ranks[self.rank]);
        self.push(event, to, wrong);
    }

    fn push(&mut self, event: Event, to: State, wrong: Option<&'static str>) {
        self.found.push(Move {
            event,
            rank: self.rank,
            replica: self.replica,
            to,
            wrong,
        });
    }

    /// The loop of the epoch, and what follows a step.
    fn of_caller(&mut self) {
        let rank = *self.rank();
        let model = *self.model;
        match rank.place {
            Place::Idle => self.next_element(&rank),
            Place::Holding => self.enter(&rank),
            Place::NotBegun => {
                let keeps = self.has(Fault::PassOverKeepsTheOthersElements);
                let loses = self.has(Fault::NotBegunLosesTheElement);
                self.go(Event::NotBegun, |rank| {
                    rank.holds = false;
                    if rank.passes_over && !keeps {
                        rank.passed |= 1 << (rank.position - 1);
                    } else if !loses {
                        rank.position -= 1;
                    }
                    model.end_epoch(rank);
                });
            }
            Place::Failed => {
                let loses = self.has(Fault::FailureLosesTheElement);
                self.go(Event::GiveBack, |rank| {
                    rank.holds = false;
                    rank.position -= u8::from(!loses);
                    model.end_epoch(rank);
                });
            }
            Place::Committed => {
                let again = self.has(Fault::CommitGivesTheElementBack);
                let end = |rank: &mut Rank| {
                    rank.holds = false;
                    rank.position -= u8::from(again);
                    forget_step(rank);
                };
                self.go(Event::StepEnds, |rank| {
                    end(rank);
                    rank.place = Place::Idle;
                });
                self.say_at(Event::ProgressFails, 1, |rank| {
                    end(rank);
                    rank.place = Place::ProgressSaid;
                });
            }
            _ => {}
        }
    }

    fn next_element(&mut self, rank: &Rank) {
        // An epoch of one process does not ask for an element if its time is over.
        if rank.limit != Limit::None {
            self.say(Event::NoElement, |rank| rank.place = Place::NoElementSaid);
            if self.is_alone() {
                return;
            }
        }
        if rank.position == self.model.elements {
            self.say(Event::EndOfPass, |rank| rank.place = Place::EndSaid);
            return;
        }
        let step = u8::from(!self.has(Fault::TakeLeavesThePosition));
        self.go(Event::Take, |rank| {
            (rank.place, rank.holds) = (Place::Holding, true);
            rank.position += step;
        });
        self.say_at(Event::PassOver, 1, |rank| {
            rank.passed |= 1 << rank.position;
            rank.position += 1;
            rank.place = Place::PassOverSaid;
        });
    }

    fn enter(&mut self, rank: &Rank) {
        let drains = rank.is_draining() && !self.has(Fault::BeginWhileDraining);
        if rank.limit != Limit::None {
            self.say(Event::CannotEnter, |rank| rank.place = Place::BeginRefused);
            return;
        }
        // A caller that does not wait until the step before is drained is refused, and comes again.
        self.say_at(Event::CannotEnter, 1, |rank| {
            rank.place = Place::BeginRefused;
        });
        if !drains {
            self.say(Event::Enter, |rank| rank.place = Place::BeginSaid);
        }
    }

    fn of_coordinator(&mut self) {
        let rank = *self.rank();
        match rank.place {
            Place::Begun => self.begin(),
            Place::Running => self.watch(&rank),
            Place::NestedBegun => self.go(Event::NestedBegin, |rank| {
                rank.place = Place::NestedRunning;
                for replica in &mut rank.replicas {
                    if replica.stage == Stage::Waiting {
                        replica.stage = Stage::NestedPosted;
                    }
                }
            }),
            Place::NestedRunning => self.watch_nested(&rank),
            Place::NestedAbandoned => {
                let stays = self.has(Fault::NestedCoordinatorStays);
                self.go(Event::NestedLeave, |rank| {
                    (rank.place, rank.poisoned) = (Place::NestedFailed, true);
                    if !stays {
                        rank.drain_nested();
                    }
                });
            }
            Place::NestedOk => {
                self.go(Event::MergeReturns, |rank| rank.deferred = true);
                self.reply(false);
                self.merge_fails();
            }
            Place::NestedFailed => {
                self.go(Event::MergeSwallows, |rank| rank.deferred = true);
                self.reply(false);
                self.go(Event::MergeReturns, |rank| {
                    rank.verdict = true;
                });
                self.reply(true);
            }
            Place::Finished => self.judge(&rank),
            Place::Agreed => self.commit(),
            Place::Disagreed => {
                self.go(Event::RollBack, |rank| rank.place = Place::Failed);
                self.undo(true);
            }
            Place::Failing => {
                self.say(Event::RollBack, |rank| rank.place = Place::FailSaid);
                self.undo(true);
            }
            Place::Abandoned => {
                self.say(Event::RollBack, |rank| rank.place = Place::AbandonedSaid);
                self.undo(false);
            }
            Place::AbandonedAnswered => {
                let counts = self.has(Fault::AbandonedStepCounts);
                let stays = self.has(Fault::CoordinatorDoesNotLeave);
                self.add(Event::Leave, |rank| {
                    rank.steps -= u8::from(!counts);
                    rank.place = Place::Failed;
                    if stays { None } else { rank.drain() }
                });
            }
            _ => {}
        }
    }

    fn begin(&mut self) {
        let counts = u8::from(!self.has(Fault::BeginCountsNoStep));
        let opens = !self.has(Fault::BeginOpensNoTransaction);
        let posted = self.model.replicas - usize::from(self.has(Fault::BeginPostsOneReplicaLess));
        let replicas = self.model.replicas;
        self.add(Event::Begin, |rank| {
            let drains = rank.replicas.iter().any(|it| it.stage != Stage::Absent);
            rank.place = Place::Running;
            rank.steps += counts;
            // Writes of another step that are still there are not told from this one's.
            rank.stale |= rank.staged | rank.nested_staged != 0 || rank.deferred;
            rank.open = opens;
            for replica in 0..replicas {
                // A replica that is not posted counts as computing, and never returns.
                let stage = [Stage::Hung, Stage::Posted][usize::from(replica < posted)];
                rank.replicas[replica].stage = stage;
            }
            drains.then_some(DRAINING)
        });
    }

    /// The coordinator waits for the replicas of the step.
    fn watch(&mut self, rank: &Rank) {
        let replicas = &rank.replicas[..self.model.replicas];
        if replicas.iter().all(|it| it.stage == Stage::Absent) {
            if !self.has(Fault::FinishWakesNobody) {
                self.go(Event::ReplicasReturned, |rank| rank.place = Place::Finished);
            }
            return;
        }
        let overlooked = match rank.limit {
            Limit::None => true,
            Limit::Deadline => self.has(Fault::DeadlineWakesNobody),
            Limit::Cancelled => self.has(Fault::CancellationWakesNobody),
        };
        if !overlooked {
            self.go(Event::Abandon, |rank| {
                (rank.place, rank.late) = (Place::Abandoned, true);
            });
            return;
        }
        let computing = |stage: Stage| stage != Stage::Absent && !stage.is_waiting();
        if !replicas.iter().any(|it| computing(it.stage)) && !self.has(Fault::ArrivalWakesNobody) {
            self.serve(rank);
        }
    }

    /// Some replicas wait in a merge call, and none computes.
    fn serve(&mut self, rank: &Rank) {
        let replicas = &rank.replicas[..self.model.replicas];
        if replicas.iter().any(|it| it.failed || it.stop) {
            self.go(Event::StopWaiting, |_| {});
            self.reply(true);
            return;
        }
        let together = replicas.iter().all(|it| it.stage == Stage::Waiting);
        if !together && !self.has(Fault::MergeWithoutAllReplicas) {
            self.go(Event::DisagreementFound, |rank| rank.verdict = true);
            self.reply(true);
        } else if self.model.nests {
            self.say(Event::NestedCall, |rank| rank.place = Place::NestedSaid);
            // A limit is reached while the merge function runs.
            if self.from.limits > 0 {
                self.go(Event::NestedTooLate, |rank| {
                    (rank.place, rank.limit) = (Place::NestedFailed, Limit::Deadline);
                    rank.poisoned = true;
                });
                let last = self.found.last_mut();
                last.into_iter().for_each(|last| last.to.limits -= 1);
            }
        } else {
            self.add(Event::Serve, |rank| {
                rank.deferred = true;
                (!together).then_some(ALONE)
            });
            self.reply(false);
            self.merge_fails();
        }
    }

    fn merge_fails(&mut self) {
        if self.from.failures == 0 {
            return;
        }
        let noted = !self.has(Fault::MergeFailureIsForgotten);
        self.fail(Event::MergeFails, |rank| {
            rank.verdict |= noted;
            None
        });
        self.reply(noted);
    }

    /// The last transition also answers all replicas that wait, and tells them to stop or not.
    fn reply(&mut self, stop: bool) {
        let misses = self.has(Fault::ReplyMissesOneReplica);
        let Some(last) = self.found.last_mut() else {
            return;
        };
        let rank = &mut last.to.ranks[self.rank];
        rank.place = Place::Running;
        let waits = |stage: Stage| stage.is_waiting();
        for replica in rank.replicas.iter_mut().skip(usize::from(misses)) {
            if waits(replica.stage) {
                replica.stage = replica.stage.released();
                replica.stop |= stop;
            }
        }
    }

    fn watch_nested(&mut self, rank: &Rank) {
        if !rank.replicas.iter().any(|it| it.stage.is_nested()) {
            self.go(Event::NestedEnd, |rank| {
                let failed = rank.nested_failed || rank.limit != Limit::None;
                rank.place = [Place::NestedOk, Place::NestedFailed][usize::from(failed)];
                rank.poisoned |= failed;
            });
            if self.has(Fault::NestedFailureDoesNotPoison) {
                let last = self.found.last_mut();
                last.into_iter()
                    .for_each(|last| last.to.ranks[self.rank].poisoned = false);
            }
        } else if rank.limit != Limit::None {
            self.go(Event::NestedAbandon, |rank| {
                (rank.place, rank.nested_late) = (Place::NestedAbandoned, true);
            });
        }
    }

    /// All callbacks have returned in time.
    fn judge(&mut self, rank: &Rank) {
        let failed = rank.verdict || rank.replicas.iter().any(|it| it.failed);
        let failed = failed && !self.has(Fault::JudgeOverlooksFailures);
        if failed || rank.limit != Limit::None {
            self.go(Event::JudgeFailed, |rank| rank.place = Place::Failing);
        } else if rank.poisoned {
            self.say(Event::Judge, |rank| rank.place = Place::VoteRefused);
        } else {
            self.say(Event::Judge, |rank| rank.place = Place::VoteSaid);
            let dropped = self.has(Fault::FailedPreparationIsDropped);
            self.say_at(Event::PrepareFails, 1, |rank| {
                rank.place = [Place::VoteRefused, Place::VoteSaid][usize::from(dropped)];
                rank.deferred &= !dropped;
            });
        }
    }

    fn commit(&mut self) {
        let model = *self.model;
        self.add(Event::Commit, |rank| {
            rank.place = Place::Committed;
            let nested = [0, model.all()][usize::from(model.nests)];
            let whole = rank.staged == model.all() && rank.nested_staged == nested;
            let bit = 1 << (rank.position - 1);
            let wrong = if rank.stale {
                Some(LATE)
            } else if !whole || rank.deferred != model.merges {
                Some(PART)
            } else if rank.applied & bit != 0 {
                Some(LOST)
            } else {
                None
            };
            if !model.has(Fault::CommitWritesNothing) {
                rank.applied |= bit;
            }
            let (staged, deferred) = (rank.staged, rank.deferred);
            roll_back(rank);
            if model.has(Fault::CommitLeavesTheWrites) {
                (rank.staged, rank.deferred) = (staged, deferred);
            }
            wrong
        });
    }

    /// The last transition also undoes what the step has written, and its number if `counted`.
    fn undo(&mut self, counted: bool) {
        let (leaves, counts, ignores, late) = (
            self.has(Fault::RollbackLeavesTheWrites),
            self.has(Fault::RollbackLeavesTheStep),
            self.has(Fault::CommitAgainstTheVotes),
            self.has(Fault::AbandonedStepIsNotRolledBack),
        );
        let was_ready = self.rank().place == Place::Disagreed && !self.rank().poisoned;
        let Some(last) = self.found.last_mut() else {
            return;
        };
        let rank = &mut last.to.ranks[self.rank];
        if ignores && was_ready {
            rank.applied |= 1 << (rank.position - 1);
            (rank.place, rank.ended) = (Place::Committed, false);
            roll_back(rank);
            return;
        }
        let leaves = leaves && counted || late && !counted;
        if leaves {
            rank.open = false;
        } else {
            roll_back(rank);
        }
        rank.steps -= u8::from(counted && !counts);
    }

    /// The deadline of the run passes, or its token is cancelled.
    fn of_limits(&mut self) {
        let rank = *self.rank();
        if rank.limit != Limit::None || matches!(rank.place, Place::Done | Place::Quit) {
            return;
        }
        if rank.armed {
            self.go(Event::DeadlinePasses, |rank| rank.limit = Limit::Deadline);
            self.go(Event::Cancel, |rank| rank.limit = Limit::Cancelled);
        } else if self.from.limits > 0 {
            for (event, limit) in [
                (Event::DeadlinePasses, Limit::Deadline),
                (Event::Cancel, Limit::Cancelled),
            ] {
                let mut to = *self.from;
                to.limits -= 1;
                to.ranks[self.rank].limit = limit;
                self.push(event, to, None);
            }
        }
    }

    fn of_replica(&mut self, replica: usize) {
        let rank = *self.rank();
        match rank.replicas[replica].stage {
            Stage::Absent => {}
            Stage::Posted if rank.late => self.leave(Event::Skip, replica),
            Stage::Posted => self.stage(Event::Start, replica, Stage::Begun),
            Stage::Begun => {
                self.write(&rank, replica);
                self.fails(&rank, replica);
                self.hang(&rank, replica);
            }
            // The replica waits for the run to end, and then writes.
            Stage::Hung if rank.late => self.stage(Event::Start, replica, Stage::Begun),
            Stage::Hung => {}
            Stage::Written => {
                if self.model.merges && !rank.late {
                    self.stage(Event::Arrive, replica, Stage::Waiting);
                    // All replicas without their merge call would be a step without an update.
                    if replica > 0 {
                        self.fail(Event::Disagree, |rank| {
                            rank.replicas[replica].stage = Stage::Absent;
                            rank.drain()
                        });
                    }
                } else {
                    self.leave(Event::Return, replica);
                }
                self.fails(&rank, replica);
            }
            Stage::Waiting => {
                if rank.late && !self.has(Fault::AbandonedStepKeepsReplicasWaiting) {
                    self.leave(Event::Return, replica);
                }
            }
            Stage::Resumed => {
                self.leave(Event::Return, replica);
                self.fails(&rank, replica);
            }
            stage => self.of_nested_replica(&rank, replica, stage),
        }
    }

    fn of_nested_replica(&mut self, rank: &Rank, replica: usize, stage: Stage) {
        let is_released = !stage.is_waiting();
        let next = |waiting: Stage, late: Stage| [waiting, late][usize::from(is_released)];
        let back = next(Stage::Waiting, Stage::Resumed);
        match stage {
            Stage::NestedPosted | Stage::LateNestedPosted if rank.nested_late => {
                self.come_back(Event::Skip, replica, back, false);
            }
            Stage::NestedPosted => self.stage(Event::Start, replica, Stage::NestedBegun),
            Stage::NestedBegun | Stage::LateNestedBegun => {
                let written = next(Stage::NestedWritten, Stage::LateNestedWritten);
                if rank.open || self.has(Fault::WriteIsNotChecked) {
                    self.go(Event::Write, |rank| {
                        rank.stale |= !rank.open;
                        rank.nested_staged |= 1 << replica;
                        rank.replicas[replica].stage = written;
                    });
                } else {
                    self.come_back(Event::WriteRefused, replica, back, true);
                }
                if self.from.failures > 0 && !rank.nested_late {
                    self.come_back(Event::Fail, replica, back, true);
                    let last = self.found.last_mut();
                    last.into_iter().for_each(|last| last.to.failures -= 1);
                }
            }
            _ => self.come_back(Event::Return, replica, back, false),
        }
    }

    /// The callback of a nested run returns.
    fn come_back(&mut self, event: Event, replica: usize, back: Stage, failed: bool) {
        let forgets = self.has(Fault::NestedReplicaDrainsNothing);
        self.go(event, |rank| {
            rank.replicas[replica].stage = back;
            rank.nested_failed |= failed && !rank.nested_late;
            if !forgets {
                rank.drain_nested();
            }
        });
    }

    fn stage(&mut self, event: Event, replica: usize, stage: Stage) {
        self.go(event, |rank| rank.replicas[replica].stage = stage);
    }

    /// The callback returns a success, which nobody asks for in an abandoned step.
    fn leave(&mut self, event: Event, replica: usize) {
        let forgets = self.has(Fault::LateReplicaDrainsNothing);
        self.add(event, |rank| {
            rank.replicas[replica].stage = Stage::Absent;
            if forgets { None } else { rank.drain() }
        });
    }

    /// The callback writes: it joins the transaction, if that is its step's.
    fn write(&mut self, rank: &Rank, replica: usize) {
        if rank.open || self.has(Fault::WriteIsNotChecked) {
            self.go(Event::Write, |rank| {
                rank.stale |= !rank.open;
                rank.staged |= 1 << replica;
                rank.replicas[replica].stage = Stage::Written;
            });
        } else {
            self.leave(Event::WriteRefused, replica);
            let last = self.found.last_mut();
            last.into_iter().for_each(|last| {
                let rank = &mut last.to.ranks[self.rank];
                rank.replicas[replica].failed = !rank.late;
            });
        }
    }

    /// The callback returns an error: by one of the failures that may come, or because it was told
    /// to stop.
    fn fails(&mut self, rank: &Rank, replica: usize) {
        let is_told = rank.replicas[replica].stop || rank.limit == Limit::Cancelled;
        if rank.late || self.from.failures == 0 && !is_told {
            return;
        }
        let noted = !self.has(Fault::FailureIsNotNoted);
        let mut to = *self.from;
        to.failures -= u8::from(!is_told);
        let rank = &mut to.ranks[self.rank];
        rank.replicas[replica].stage = Stage::Absent;
        rank.replicas[replica].failed = noted;
        self.push(Event::Fail, to, None);
    }

    /// The callback waits for the end of the run, which has a deadline.
    fn hang(&mut self, rank: &Rank, replica: usize) {
        let armed = rank.armed || rank.limit != Limit::None;
        if rank.late || !armed && self.from.limits == 0 {
            return;
        }
        let mut to = *self.from;
        to.limits -= u8::from(!armed);
        let rank = &mut to.ranks[self.rank];
        rank.armed |= !armed;
        rank.replicas[replica].stage = Stage::Hung;
        self.push(Event::Hang, to, None);
    }
}
