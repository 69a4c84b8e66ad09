//! Breadth-first exploration of all states of a model. States are stored whole rather than as
//! hashes, so that none is mistaken for another.

use crate::model::{ENDLESS, Event, Model, Move, Property};
use crate::state::{State, Words};

/// The result of an exploration.
pub struct Report {
    pub states: usize,
    pub transitions: u64,
    /// The most transitions on a shortest path from the start to a state.
    pub depth: u32,
    /// The number of terminal states.
    pub ends: usize,
    /// How often each kind of transition occurs.
    pub events: [u64; Event::ALL.len()],
    pub violation: Option<Violation>,
}

/// A broken property, and the transitions that lead there, a line each.
pub struct Violation {
    pub property: Property,
    pub path: String,
}

/// The states that were reached, in breadth-first order.
struct Reached {
    states: Vec<Words>,
    /// The state from which each was first reached.
    parents: Vec<u32>,
    /// How many transitions lead to each.
    incoming: Vec<u16>,
    /// A hash table with open addressing, of indices into `states`, plus 1.
    table: Vec<u32>,
}

impl Reached {
    fn new(most: usize) -> Reached {
        // The system gives memory where it is first written, so that room for more states than
        // there are costs nothing.
        Reached {
            states: Vec::with_capacity(most),
            parents: Vec::with_capacity(most),
            incoming: Vec::with_capacity(most),
            table: vec![0; (most + most / 2).next_power_of_two()],
        }
    }

    fn hash(words: &Words) -> u64 {
        words.iter().fold(0, |hash: u64, word| {
            let mixed = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            mixed ^ mixed >> 29
        })
    }

    /// The index of a state, which is added if it is new.
    fn find_or_add(&mut self, words: Words, parent: usize) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = Reached::hash(&words) as usize & mask;
        loop {
            match self.table[slot] {
                0 => {
                    let index = self.states.len();
                    assert!(index < self.states.capacity(), "more states than allowed");
                    self.table[slot] = index as u32 + 1;
                    self.states.push(words);
                    self.parents.push(parent as u32);
                    self.incoming.push(0);
                    return index;
                }
                entry if self.states[entry as usize - 1] == words => return entry as usize - 1,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// The transitions on the path by which a state was first reached.
    fn path(&self, model: &Model, index: usize) -> String {
        let mut indices = vec![index];
        while let Some(&last) = indices.last().filter(|&&last| last > 0) {
            indices.push(self.parents[last] as usize);
        }
        indices.reverse();
        let mut text = String::new();
        for pair in indices.windows(2) {
            let mut moves = Vec::new();
            model.moves(&State::unpack(&self.states[pair[0]]), &mut moves);
            let to = self.states[pair[1]];
            if let Some(step) = moves.iter().find(|step| step.to.pack() == to) {
                text += &format!("  {step}\n");
            }
        }
        text
    }

    /// Adds the states that the transitions from state `from` lead to, up to a violation.
    fn follow(
        &mut self,
        report: &mut Report,
        moves: &[Move],
        from: usize,
        model: &Model,
    ) -> Option<Violation> {
        for step in moves {
            report.transitions += 1;
            report.events[step.event as usize] += 1;
            if let Some(property) = step.broken.or_else(|| model.broken(&step.to)) {
                let path = self.path(model, from) + &format!("  {step}\n");
                return Some(Violation { property, path });
            }
            let to = self.find_or_add(step.to.pack(), from);
            self.incoming[to] += 1;
        }
        None
    }

    /// Sorts the states topologically: without a cycle among them, every run ends. Transitions that
    /// the order covers are taken from `incoming`, so that states on a cycle keep some.
    fn is_acyclic(&mut self, model: &Model) -> bool {
        let states = self.states.len();
        let mut ready = Vec::new();
        if self.incoming[0] == 0 {
            ready.push(0);
        }
        let mut moves = Vec::new();
        let mut sorted = 0;
        while let Some(from) = ready.pop() {
            sorted += 1;
            moves.clear();
            model.moves(&State::unpack(&self.states[from]), &mut moves);
            for step in &moves {
                let to = self.find_or_add(step.to.pack(), from);
                assert!(to < states, "the exploration has missed a state");
                self.incoming[to] -= 1;
                if self.incoming[to] == 0 {
                    ready.push(to);
                }
            }
        }
        sorted == states
    }
}

/// Explores all states of `model`, at most `most`, or up to the first violation.
pub fn explore(model: &Model, most: usize) -> Report {
    let mut reached = Reached::new(most);
    let mut report = Report {
        states: 0,
        transitions: 0,
        depth: 0,
        ends: 0,
        events: [0; Event::ALL.len()],
        violation: None,
    };
    reached.find_or_add(model.start().pack(), 0);
    let mut moves = Vec::new();
    let mut index = 0;
    let mut next_level = 1;
    while index < reached.states.len() && report.violation.is_none() {
        if index == next_level {
            report.depth += 1;
            next_level = reached.states.len();
        }
        let state = State::unpack(&reached.states[index]);
        moves.clear();
        model.moves(&state, &mut moves);
        if !moves.is_empty() {
            report.violation = reached.follow(&mut report, &moves, index, model);
        } else if let Some(property) = model.broken_at_end(&state) {
            let path = reached.path(model, index);
            report.violation = Some(Violation { property, path });
        } else {
            report.ends += 1;
        }
        index += 1;
    }
    report.states = reached.states.len();
    if report.violation.is_none() && !reached.is_acyclic(model) {
        let on_cycle = reached.incoming.iter().position(|&left| left > 0);
        report.violation = Some(Violation {
            property: ENDLESS,
            path: reached.path(model, on_cycle.unwrap_or(0)),
        });
    }
    report
}
