//! The properties, with the checks of each state, of terminal states and of commits. Properties of
//! another transition are checked where that is added.

use super::Model;
use crate::state::{Place, Rank, State};

/// A property, by the sentence that says how it is broken.
pub type Property = &'static str;

pub const LOST: Property = "an element is lost, or counts twice";
pub const PARTIAL: Property = "a step is committed in part";
pub const STALE: Property = "a write of an abandoned step is committed";
pub const RANKS_DIFFER: Property = "the ranks begin a step with different states or elements";
pub const OVERLAP: Property = "a step opens before the callbacks of an abandoned one have returned";
pub const CARRIED_OVER: Property = "a step begins with a failure of an earlier one";
pub const STEP_COUNT: Property = "the number of steps differs from that of the committed ones";
pub const DEADLOCK: Property = "deadlock: nothing can happen any more, but work is left";
pub const ENDLESS: Property = "a run may never end";
pub const DRAIN_ORDER: Property = "a step is drained before the one nested in it";
pub const EARLY_MERGE: Property = "a merge function runs before all replicas have arrived";

impl Model {
    /// The property that is broken in a state.
    pub fn broken(&self, state: &State) -> Option<Property> {
        state.ranks[..self.ranks].iter().find_map(|rank| {
            if !(0..self.elements).all(|element| is_in_one_place(rank, element)) {
                return Some(LOST);
            }
            let is_between_steps = matches!(rank.place, Place::Idle | Place::Done | Place::Quit);
            let committed = rank.applied.count_ones();
            (is_between_steps && committed != u32::from(rank.steps)).then_some(STEP_COUNT)
        })
    }

    /// The property that is broken in a state without transitions, where a run must have ended.
    pub fn broken_at_end(&self, state: &State) -> Option<Property> {
        let ranks = &state.ranks[..self.ranks];
        let first = &ranks[0];
        let has_ended = matches!(first.place, Place::Done | Place::Quit);
        if !has_ended || ranks.iter().any(|rank| rank.place != first.place) {
            return Some(DEADLOCK);
        }
        let all = (1 << self.elements) - 1;
        ranks.iter().find_map(|rank| {
            if rank.is_draining() {
                Some(DEADLOCK)
            } else if rank.place == Place::Done && rank.applied | rank.passed != all {
                Some(LOST)
            } else if rank.applied != first.applied || rank.position != first.position {
                Some(RANKS_DIFFER)
            } else {
                None
            }
        })
    }

    /// The property that a rank breaks if it commits now.
    pub fn broken_by_commit(&self, rank: &Rank) -> Option<Property> {
        let nested = if self.nests { self.all_replicas() } else { 0 };
        let has_all_writes = rank.staged == self.all_replicas() && rank.nested_staged == nested;
        if rank.stale {
            Some(STALE)
        } else if !has_all_writes || rank.deferred != self.merges {
            Some(PARTIAL)
        } else if rank.applied & rank.held() != 0 {
            Some(LOST)
        } else {
            None
        }
    }
}

/// Whether an element is either applied, passed over, still to come or held, and only one of these.
fn is_in_one_place(rank: &Rank, element: u8) -> bool {
    let bit = 1 << element;
    let is_applied = rank.applied & bit != 0;
    let is_passed = rank.passed & bit != 0;
    let is_to_come = element >= rank.position;
    // The element of a committed step is still held until the caller hears of it.
    let is_held = rank.holds && rank.held() == bit && !is_applied;
    let places = [is_applied, is_passed, is_to_come, is_held];
    places.into_iter().filter(|&is_there| is_there).count() == 1
}
