//! How long a step of W processes takes, by a model whose constants are measured.

/// What a step and a machine are like. Times are seconds, rates bytes a second.
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    /// Bytes of all gradients, as they go over the wire.
    pub bytes: f64,
    /// What the replicas of a process compute.
    pub compute: f64,
    /// What making a process's own part of a batch takes, beside the computation.
    pub input: f64,
    /// Each process makes only its own part; else all make whole batches.
    pub own_input: bool,
    /// Bytes of gradients that a process applies in a second.
    pub update_rate: f64,
    /// What a process spends on sending one message and receiving one.
    pub message: f64,
    /// From one process to another.
    pub latency: f64,
    /// How often the ranks vote in a step.
    pub votes: f64,
    /// Bytes that go into and out of a process in a second.
    pub wire: f64,
    /// Processes that share a machine, whose bytes are summed there first; 1: none are.
    pub per_machine: f64,
    /// What is exchanged within a machine.
    pub memory_rate: f64,
    /// The part of the computation that an exchange may run beside; 0: none.
    pub overlap: f64,
}

/// Where the time of a step goes.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Computing, or making the batch if that takes longer.
    pub compute: f64,
    /// What of the exchange is not hidden behind the computation.
    pub exchange: f64,
    pub update: f64,
    pub vote: f64,
}

impl Step {
    pub fn seconds(&self) -> f64 {
        self.compute + self.exchange + self.update + self.vote
    }
}

impl Constants {
    /// A step of so many processes, each with as many examples as ever.
    pub fn step(&self, processes: f64) -> Step {
        let machines = (processes / self.per_machine).max(1.0);
        let within = self.per_machine.min(processes);
        // All-to-all and all-gather: each sends and receives all but its own part, twice.
        let passes = |ranks: f64, rate: f64| 2.0 * (ranks - 1.0) / ranks * self.bytes / rate;
        let messages = |ranks: f64| 2.0 * (ranks - 1.0) * self.message;
        let exchange = if self.per_machine > 1.0 {
            passes(within, self.memory_rate)
                + messages(within)
                + passes(machines, self.wire)
                + messages(machines)
        } else {
            passes(processes, self.wire) + messages(processes)
        };
        let input = if self.own_input { self.input } else { self.input * processes };
        let compute = self.compute.max(input);
        Step {
            compute,
            exchange: (exchange - self.overlap * self.compute).max(0.0),
            update: self.update(processes),
            // A reduction of a number: up a tree and down again.
            vote: self.votes * 2.0 * processes.log2().ceil() * (self.latency + self.message),
        }
    }

    /// Each updates its part, before the vote and after it.
    fn update(&self, processes: f64) -> f64 {
        let alone = self.bytes / self.update_rate;
        if processes < 2.0 { alone } else { 2.0 * alone / processes }
    }

    /// Which part of what W processes could do they do: a process alone exchanges nothing.
    pub fn efficiency(&self, processes: f64) -> f64 {
        self.step(1.0).seconds() / self.step(processes).seconds()
    }

    /// From how many processes on less than half of each is of use, if that is below the limit.
    pub fn stops_paying(&self, limit: u32) -> Option<u32> {
        (1..=limit).find(|&processes| self.efficiency(f64::from(processes)) < 0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Constants = Constants {
        bytes: 1e8,
        compute: 0.1,
        input: 0.0,
        own_input: true,
        update_rate: 1e10,
        message: 1e-6,
        latency: 1e-5,
        votes: 2.0,
        wire: 1e10,
        per_machine: 1.0,
        memory_rate: 1e10,
        overlap: 0.0,
    };

    #[test]
    fn one_process_exchanges_nothing() {
        let step = USUAL.step(1.0);
        assert_eq!((step.exchange, step.vote, step.update), (0.0, 0.0, 0.01));
        assert!((step.seconds() - 0.11).abs() < 1e-12);
        assert_eq!(USUAL.efficiency(1.0), 1.0);
    }

    #[test]
    fn an_exchange_is_what_goes_over_the_wire_twice() {
        let step = USUAL.step(4.0);
        assert!((step.exchange - (2.0 * 0.75 * 0.01 + 6e-6)).abs() < 1e-12, "{step:?}");
        // Twice a quarter of the work.
        assert!((step.update - 2.0 * 0.0025).abs() < 1e-12);
        assert!((step.vote - 2.0 * 2.0 * 2.0 * 1.1e-5).abs() < 1e-12);
    }

    #[test]
    fn what_is_hidden_costs_nothing_and_messages_cost_in_the_end() {
        let hidden = Constants { overlap: 0.5, ..USUAL };
        assert_eq!(hidden.step(4.0).exchange, 0.0);
        let slow_input = Constants { input: 0.2, ..USUAL };
        assert_eq!(slow_input.step(8.0).compute, 0.2);
        let whole_batches = Constants { input: 0.02, own_input: false, ..USUAL };
        assert_eq!(whole_batches.step(4.0).compute, 0.1);
        assert_eq!(whole_batches.step(8.0).compute, 0.16);
        // 2 W messages of a microsecond each are as long as the step from some 40,000 processes on.
        let stops = USUAL.stops_paying(100_000).unwrap();
        assert!((30_000..60_000).contains(&stops), "{stops}");
        assert_eq!(USUAL.stops_paying(1000), None);
        let slow = Constants { wire: 1e9, ..USUAL };
        assert!(slow.stops_paying(1000).unwrap() < 10);
    }

    #[test]
    fn machines_send_once_for_all_their_processes() {
        let by_eight = Constants { per_machine: 8.0, memory_rate: 1e30, message: 0.0, ..USUAL };
        let flat = Constants { per_machine: 1.0, message: 0.0, ..USUAL };
        assert_eq!(by_eight.step(64.0).exchange, flat.step(8.0).exchange);
    }
}
