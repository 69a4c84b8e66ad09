//! A state of the model, and its packed form: a word for each rank.

/// The most ranks, and the most replicas of each.
pub const RANKS: usize = 3;
pub const REPLICAS: usize = 3;

listed! {
    /// The place of a rank's caller and coordinator, which is one thread.
    #[derive(Default)]
    pub enum Place {
        /// Between two steps, without an element.
        #[default]
        Idle,
        /// With an element, before the run.
        Holding,
        /// Said to all ranks: this one begins a run.
        BeginSaid,
        /// Said to all ranks: this one cannot begin the run.
        BeginRefused,
        /// Said to all ranks: this one passes over an element that it cannot make.
        PassOverSaid,
        /// Said to all ranks: this one got no element in time.
        NoElementSaid,
        /// Said to all ranks: this one ends its epoch after a step that counts.
        ProgressSaid,
        /// Said to all ranks: the pass of this one has ended.
        EndSaid,
        /// All ranks begin.
        Begun,
        /// Not all ranks begin; the element is still here.
        NotBegun,
        /// The step is open, and its coordinator waits for the replicas.
        Running,
        /// Said to all ranks, in a merge call: this one begins a nested run.
        NestedSaid,
        NestedBegun,
        NestedRunning,
        NestedAbandoned,
        NestedOk,
        NestedFailed,
        /// All callbacks have returned in time.
        Finished,
        /// Voted for the commit.
        VoteSaid,
        /// Voted against it, with the writes still there.
        VoteRefused,
        Agreed,
        Disagreed,
        /// The step has failed here; nothing is rolled back.
        Failing,
        /// Voted against the commit, with the writes rolled back.
        FailSaid,
        /// The step was abandoned; nothing is rolled back.
        Abandoned,
        AbandonedSaid,
        AbandonedAnswered,
        /// The step had no effect; the element is still here.
        Failed,
        Committed,
        /// The pass has ended on all ranks.
        Done,
        /// The caller has ended the training after an error.
        Quit,
    }
}

listed! {
    /// The stage of a replica's callback.
    #[derive(Default)]
    pub enum Stage {
        /// There is no callback, or it has returned.
        #[default]
        Absent,
        /// In the mailbox of the replica's thread.
        Posted,
        /// Computing, before the first write.
        Begun,
        /// Computing, and does not return before the run has.
        Hung,
        /// Computing, after a write.
        Written,
        /// In a merge call.
        Waiting,
        /// Computing, after the merge call.
        Resumed,
        /// In a callback of a nested run, around which the replica waits.
        NestedPosted,
        NestedBegun,
        NestedWritten,
        /// In a callback of an abandoned nested run, whose merge call was answered.
        LateNestedPosted,
        LateNestedBegun,
        LateNestedWritten,
    }
}

impl Stage {
    /// Whether the replica is in a callback of a nested run.
    pub fn is_nested(self) -> bool {
        use Stage::{LateNestedBegun, LateNestedPosted, LateNestedWritten};
        use Stage::{NestedBegun, NestedPosted, NestedWritten};
        matches!(self, NestedPosted | NestedBegun | NestedWritten)
            || matches!(self, LateNestedPosted | LateNestedBegun | LateNestedWritten)
    }

    /// Whether the replica waits for its coordinator, as far as the outer step knows.
    pub fn is_waiting(self) -> bool {
        use Stage::{NestedBegun, NestedPosted, NestedWritten, Waiting};
        matches!(self, Waiting | NestedPosted | NestedBegun | NestedWritten)
    }

    /// The stage of the replica once its merge call is answered.
    pub fn released(self) -> Stage {
        match self {
            Stage::NestedPosted => Stage::LateNestedPosted,
            Stage::NestedBegun => Stage::LateNestedBegun,
            Stage::NestedWritten => Stage::LateNestedWritten,
            Stage::Waiting => Stage::Resumed,
            other => other,
        }
    }
}

listed! {
    /// The limit that a run has reached.
    #[derive(Default)]
    pub enum Limit {
        #[default]
        None,
        Deadline,
        Cancelled,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    pub stage: Stage,
    /// The callback has returned an error.
    pub failed: bool,
    /// The replica was told to stop.
    pub stop: bool,
}

/// A rank: its caller, its replicas, its part of central state and its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    pub place: Place,
    pub limit: Limit,
    /// The run will reach a limit, since a replica hangs until then.
    pub armed: bool,
    /// The number of elements that were taken from the input, or passed over.
    pub position: u8,
    /// Whether the caller has the element before `position`.
    pub holds: bool,
    /// A bit for each element whose step is in central state, and for each that was passed over.
    pub applied: u8,
    pub passed: u8,
    /// The number of steps that count.
    pub steps: u8,
    /// The transaction: whether it is open, a bit for each replica whose write it has, in the step
    /// and in its nested run, and whether one of the writes is another step's.
    pub open: bool,
    pub staged: u8,
    pub nested_staged: u8,
    pub stale: bool,
    /// A nested run has failed, so that the step cannot be committed.
    pub poisoned: bool,
    /// An update waits for the commit point.
    pub deferred: bool,
    /// A merge function has failed, or replicas have disagreed.
    pub verdict: bool,
    /// A rank has failed, and the ranks exchange nothing more in this step.
    pub ended: bool,
    /// A rank passes over its element, as the ranks have last said, so that all others do.
    pub passes_over: bool,
    /// A callback of the nested run has failed.
    pub nested_failed: bool,
    /// The step, or its nested run, is abandoned and not yet drained.
    pub late: bool,
    pub nested_late: bool,
    pub replicas: [Replica; REPLICAS],
}

impl Rank {
    /// The bit of the element before `position`, which is the held one.
    pub fn held(&self) -> u8 {
        1 << self.position >> 1
    }

    pub fn is_draining(&self) -> bool {
        self.late || self.nested_late
    }
}

/// A state of all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub ranks: [Rank; RANKS],
    /// How many failures may still come, and how many limits may still be reached.
    pub failures: u8,
    pub limits: u8,
}

/// Packs values into a word, the first one into its lowest bits.
struct Writer {
    word: u64,
    used: u32,
}

impl Writer {
    fn put(&mut self, value: u8, bits: u32) {
        // A value that is too large would make one state look like another.
        assert!(
            u32::from(value) < 1 << bits,
            "{value} has more than {bits} bits"
        );
        self.word |= u64::from(value) << self.used;
        self.used += bits;
    }

    fn flag(&mut self, flag: bool) {
        self.put(u8::from(flag), 1);
    }
}

/// Takes the values out again, in the same order.
struct Reader(u64);

impl Reader {
    fn take(&mut self, bits: u32) -> u8 {
        let value = self.0 & ((1 << bits) - 1);
        self.0 >>= bits;
        value as u8
    }

    fn flag(&mut self) -> bool {
        self.take(1) == 1
    }
}

impl Rank {
    /// The flags, in the order in which they are packed.
    fn flags(&mut self) -> [&mut bool; 12] {
        [
            &mut self.armed,
            &mut self.holds,
            &mut self.open,
            &mut self.stale,
            &mut self.poisoned,
            &mut self.deferred,
            &mut self.verdict,
            &mut self.ended,
            &mut self.passes_over,
            &mut self.nested_failed,
            &mut self.late,
            &mut self.nested_late,
        ]
    }

    fn write(mut self, to: &mut Writer) {
        to.put(self.place as u8, 5);
        to.put(self.limit as u8, 2);
        to.put(self.position, 2);
        to.put(self.applied, 3);
        to.put(self.passed, 3);
        to.put(self.steps, 2);
        to.put(self.staged, 3);
        to.put(self.nested_staged, 3);
        for flag in self.flags() {
            to.flag(*flag);
        }
        for replica in &self.replicas {
            to.put(replica.stage as u8, 4);
            to.flag(replica.failed);
            to.flag(replica.stop);
        }
    }

    fn read(from: &mut Reader) -> Rank {
        let mut rank = Rank {
            place: Place::ALL[usize::from(from.take(5))],
            limit: Limit::ALL[usize::from(from.take(2))],
            position: from.take(2),
            applied: from.take(3),
            passed: from.take(3),
            steps: from.take(2),
            staged: from.take(3),
            nested_staged: from.take(3),
            ..Rank::default()
        };
        for flag in rank.flags() {
            *flag = from.flag();
        }
        for replica in &mut rank.replicas {
            *replica = Replica {
                stage: Stage::ALL[usize::from(from.take(4))],
                failed: from.flag(),
                stop: from.flag(),
            };
        }
        rank
    }
}

/// A packed state. Different states have different words.
pub type Words = [u64; RANKS];

impl State {
    pub fn pack(&self) -> Words {
        let mut words = [0; RANKS];
        for (rank, word) in self.ranks.iter().zip(&mut words) {
            let mut to = Writer { word: 0, used: 0 };
            rank.write(&mut to);
            *word = to.word;
        }
        // A rank takes 53 bits, so that the first word has room for both numbers.
        assert!(self.failures < 16 && self.limits < 16);
        words[0] |= u64::from(self.failures) << 56 | u64::from(self.limits) << 60;
        words
    }

    pub fn unpack(words: &Words) -> State {
        let mut state = State {
            failures: (words[0] >> 56 & 15) as u8,
            limits: (words[0] >> 60) as u8,
            ..State::default()
        };
        for (word, rank) in words.iter().zip(&mut state.ranks) {
            *rank = Rank::read(&mut Reader(*word));
        }
        state
    }
}
