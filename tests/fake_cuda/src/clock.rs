//! Vector clocks: what an operation, an event or the host knows to be finished.

/// A line of operations that run one after the other: one stream.
pub type Actor = usize;

/// For each actor the number of its last operation that is known to be finished.
#[derive(Clone, Default, Debug)]
pub struct Clock(Vec<u64>);

impl Clock {
    /// The last operation of `actor` that this clock knows of; 0 is none.
    pub fn get(&self, actor: Actor) -> u64 {
        self.0.get(actor).copied().unwrap_or(0)
    }

    /// Counts one more operation of `actor` and returns its number.
    pub fn tick(&mut self, actor: Actor) -> u64 {
        if self.0.len() <= actor {
            self.0.resize(actor + 1, 0);
        }
        self.0[actor] += 1;
        self.0[actor]
    }

    /// Learns everything that `other` knows.
    pub fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }
}
