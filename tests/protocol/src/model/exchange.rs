//! Ranks together. Each says something to all others: that it begins a run, that its pass has
//! ended, or how it votes. The last one to do so settles the answer, which all of them learn.

use super::moves::{Cost, Moves};
use super::properties::RANKS_DIFFER;
use super::{Event, Model, Property};
use crate::faults::Fault;
use crate::state::{Place, Rank, State};

/// A rank's part of an exchange. The answer is yes if all parts are of one kind and agree.
struct Said {
    kind: Kind,
    agrees: bool,
}

#[derive(PartialEq, Eq)]
enum Kind {
    Begin,
    End,
    Nested,
    Commit,
}

/// The part of a rank that waits at `place`.
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

impl Moves<'_> {
    /// Adds a transition to `place`, where this rank has said something and waits for the others.
    pub fn say(&mut self, event: Event, place: Place) {
        self.say_with(event, Cost::Free, place, |_| {});
    }

    /// The same at a cost, and with a change of this rank before.
    pub fn say_with(
        &mut self,
        event: Event,
        cost: Cost,
        place: Place,
        change: impl FnOnce(&mut Rank),
    ) {
        self.add(event, cost, |model, to, at| {
            let rank = &mut to.ranks[at];
            change(rank);
            rank.place = place;
            let said = said(place)?;
            // After a failure the ranks exchange nothing more in the step, but they do between
            // steps.
            if rank.ended && matches!(said.kind, Kind::Nested | Kind::Commit) {
                model.answer(rank, false);
                None
            } else if model.is_silent(place, at) {
                model.answer(rank, said.agrees);
                None
            } else {
                model.settle(to)
            }
        });
    }
}

impl Model {
    /// Whether a fault makes a rank act on its own part, without the answer.
    fn is_silent(&self, place: Place, rank: usize) -> bool {
        match place {
            Place::EndSaid => self.has(Fault::EndIsNotSaid),
            Place::BeginSaid => self.has(Fault::BeginAlone),
            Place::BeginRefused => self.has(Fault::RefusalIsNotSaid),
            Place::ProgressSaid => self.has(Fault::ProgressIsNotSaid),
            Place::NestedSaid => self.has(Fault::NestedRunBeginsAlone) && rank == 0,
            Place::VoteSaid => self.has(Fault::CommitBeforeTheVotes),
            Place::FailSaid => self.has(Fault::FailureDoesNotVote),
            Place::AbandonedSaid => self.has(Fault::AbandonedStepDoesNotVote),
            _ => false,
        }
    }

    /// Answers all ranks, once all have said something.
    fn settle(&self, state: &mut State) -> Option<Property> {
        let ranks = &mut state.ranks[..self.ranks];
        let first = said(ranks[0].place)?;
        let mut agree = true;
        for rank in ranks.iter() {
            let said = said(rank.place)?;
            agree &= said.agrees && said.kind == first.kind;
        }
        let passes_over = ranks.iter().any(|rank| rank.place == Place::PassOverSaid)
            && !self.has(Fault::PassOverIsNotSaid);
        let all_begin = ranks.iter().all(|rank| rank.place == Place::BeginSaid);
        let compared = |rank: &Rank| (rank.applied, rank.position, rank.steps);
        let differ = ranks.iter().any(|it| compared(it) != compared(&ranks[0]));
        for rank in ranks.iter_mut() {
            rank.passes_over = passes_over;
            rank.ended = !agree && self.ranks > 1;
            self.answer(rank, agree);
        }
        (all_begin && differ).then_some(RANKS_DIFFER)
    }

    /// A rank learns whether all agree.
    fn answer(&self, rank: &mut Rank, agree: bool) {
        let before = rank.place;
        rank.place = match before {
            Place::BeginSaid | Place::BeginRefused if agree => Place::Begun,
            Place::BeginSaid | Place::BeginRefused => Place::NotBegun,
            Place::EndSaid if agree => Place::Done,
            Place::NestedSaid if agree => Place::NestedBegun,
            Place::NestedSaid => Place::NestedFailed,
            Place::VoteSaid | Place::VoteRefused if agree => Place::Agreed,
            Place::VoteSaid | Place::VoteRefused => Place::Disagreed,
            Place::FailSaid => Place::Failed,
            Place::AbandonedSaid => Place::AbandonedAnswered,
            _ => Place::Idle,
        };
        if rank.place == Place::NestedFailed {
            rank.poisoned = true;
            rank.ended &= !self.has(Fault::NestedRefusalEndsNothing);
        }
        let keeps = match before {
            Place::NoElementSaid => self.has(Fault::NoElementKeepsTheElement),
            Place::ProgressSaid => self.has(Fault::ProgressKeepsTheElement),
            _ => true,
        };
        // A rank without an element passes over the next one, as the rank that could not make it.
        if !keeps && rank.passes_over && rank.position < self.elements {
            rank.passed |= 1 << rank.position;
            rank.position += 1;
        }
        if rank.place == Place::Idle {
            self.end_epoch(rank);
        }
    }
}
