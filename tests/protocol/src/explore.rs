//! The exploration of all states, in breadth. Each is kept whole, so that none is taken for
//! another.

use crate::model::{Event, Model, Move};
use crate::state::{State, Words};

/// The result of an exploration.
pub struct Report {
    pub states: usize,
    pub transitions: u64,
    /// The most transitions to a state by the shortest way.
    pub depth: u32,
    /// States in which all is done.
    pub ends: usize,
    /// How often each event has occurred.
    pub events: [u64; Event::COUNT],
    /// The property that does not hold, and the way there.
    pub violation: Option<(&'static str, String)>,
}

/// The states that were found, in the order in which they were, which is that of breadth.
struct Known {
    states: Vec<Words>,
    /// The state from which each was first reached.
    parents: Vec<u32>,
    /// How many transitions lead to each.
    ways: Vec<u16>,
    /// Places in `states`, plus 1, by hash.
    table: Vec<u32>,
}

impl Known {
    fn new(most: usize) -> Known {
        // Memory that is not used is not taken.
        Known {
            states: Vec::with_capacity(most),
            parents: Vec::with_capacity(most),
            ways: Vec::with_capacity(most),
            table: vec![0; (most + most / 2).next_power_of_two()],
        }
    }

    fn hash(words: &Words) -> u64 {
        words.iter().fold(0, |hash: u64, word| {
            let mixed = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            mixed ^ mixed >> 29
        })
    }

    /// The place of a state, and whether it was not known.
    fn find_or_add(&mut self, words: Words, parent: usize) -> (usize, bool) {
        let mask = self.table.len() - 1;
        let mut at = Known::hash(&words) as usize & mask;
        loop {
            match self.table[at] {
                0 => {
                    let place = self.states.len();
                    assert!(place < self.states.capacity(), "more states than allowed");
                    self.table[at] = place as u32 + 1;
                    self.states.push(words);
                    self.parents.push(parent as u32);
                    self.ways.push(0);
                    return (place, true);
                }
                known if self.states[known as usize - 1] == words => {
                    return (known as usize - 1, false);
                }
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// The events on the first way to a state, a line each.
    fn way(&self, model: &Model, place: usize) -> String {
        let mut places = vec![place];
        while let Some(&last) = places.last().filter(|&&last| last > 0) {
            places.push(self.parents[last] as usize);
        }
        places.reverse();
        let mut text = String::new();
        for pair in places.windows(2) {
            let mut moves = Vec::new();
            model.moves(&State::unpack(&self.states[pair[0]]), &mut moves);
            let to = self.states[pair[1]];
            if let Some(step) = moves.iter().find(|step| step.to.pack() == to) {
                text += &format!("  {step}\n");
            }
        }
        text
    }
}

/// Explores all states of `model`, at most `most`, or up to the first in which a property does not
/// hold.
pub fn explore(model: &Model, most: usize) -> Report {
    let mut known = Known::new(most);
    let mut report = Report {
        states: 0,
        transitions: 0,
        depth: 0,
        ends: 0,
        events: [0; Event::COUNT],
        violation: None,
    };
    known.find_or_add(model.start().pack(), 0);
    let mut moves = Vec::new();
    let (mut at, mut level) = (0, 1);
    while at < known.states.len() {
        if at == level {
            (report.depth, level) = (report.depth + 1, known.states.len());
        }
        let state = State::unpack(&known.states[at]);
        moves.clear();
        model.moves(&state, &mut moves);
        if moves.is_empty() {
            if let Err(property) = model.is_good_end(&state) {
                report.violation = Some((property, known.way(model, at)));
                break;
            }
            report.ends += 1;
        }
        if let Some((property, text)) = known.follow(&mut report, &moves, at, model) {
            report.violation = Some((property, text));
            break;
        }
        at += 1;
    }
    report.states = known.states.len();
    if report.violation.is_none() && !known.all_ways_end(model) {
        let on = known.ways.iter().position(|&ways| ways > 0);
        let way = known.way(model, on.unwrap_or(0));
        report.violation = Some(("a run does not end", way));
    }
    report
}

impl Known {
    /// Adds the states after the one at `at`. Returns the property that does not hold in one.
    fn follow(
        &mut self,
        report: &mut Report,
        moves: &[Move],
        at: usize,
        model: &Model,
    ) -> Option<(&'static str, String)> {
        for step in moves {
            report.transitions += 1;
            report.events[step.event as usize] += 1;
            let wrong = step.wrong.or_else(|| model.wrong(&step.to));
            if let Some(property) = wrong {
                return Some((property, self.way(model, at) + &format!("  {step}\n")));
            }
            let (place, _) = self.find_or_add(step.to.pack(), at);
            self.ways[place] += 1;
        }
        None
    }

    /// Whether every way ends: the states can be put into an order in which each transition leads
    /// forwards.
    fn all_ways_end(&mut self, model: &Model) -> bool {
        let mut ready = vec![0_u32];
        let mut moves = Vec::new();
        let mut passed = 0;
        while let Some(at) = ready.pop() {
            passed += 1;
            moves.clear();
            model.moves(&State::unpack(&self.states[at as usize]), &mut moves);
            for step in &moves {
                let (place, is_new) = self.find_or_add(step.to.pack(), at as usize);
                assert!(!is_new, "a state that was not known");
                self.ways[place] -= 1;
                if self.ways[place] == 0 {
                    ready.push(place as u32);
                }
            }
        }
        passed == self.states.len()
    }
}
