//! The whole state of the driver. It is locked for the time of a call.

use crate::clock::Clock;
use crate::codes::{Code, Outcome};
use crate::context::Context;
use crate::event::Events;
use crate::faults::Faults;
use crate::memory::Memory;
use crate::module::Modules;
use crate::moved::Moved;
use crate::pool::Pool;
use crate::random::Random;
use crate::report::{Mistake, Reports};
use crate::schedule::Eagerness;
use crate::settings::Settings;
use crate::stream::Streams;
use crate::watch::Watches;

pub struct Driver {
    pub settings: Settings,
    pub contexts: Vec<Context>,
    pub pools: Vec<Pool>,
    pub memory: Memory,
    pub streams: Streams,
    pub events: Events,
    pub modules: Modules,
    /// The first identity of a thread that was never used.
    pub identities: u32,
    pub watches: Watches,
    /// What the program can know to be finished. Threads of the program share it: how they tell
    /// each other is not for the driver to see.
    pub host: Clock,
    pub random: Random,
    pub eagerness: Eagerness,
    pub reports: Reports,
    pub faults: Faults,
    pub initialised: bool,
    /// How many calls there were; work continues by itself when this stands still.
    pub calls: u64,
    /// How many bytes copies have moved.
    pub moved: Moved,
}

impl Driver {
    /// The failure that this call, or `operation` when it runs, is to meet, if any. A sticky code
    /// breaks the current context. The error of an operation always breaks its own: there is no
    /// call that could return it otherwise.
    pub fn fault_in(&mut self, function: &'static str) -> Option<Code> {
        if function == "operation" {
            return self.faults.at(function).map(Code);
        }
        let code = Code(self.faults.in_call(function)?);
        if code.is_sticky()
            && let Ok(context) = self.current()
        {
            self.fail_context(context, code);
        }
        Some(code)
    }

    pub fn new() -> Driver {
        let mut settings = Settings::from_environment();
        let memory = (0..settings.devices)
            .map(|device| settings.memory_of(device))
            .collect();
        Driver {
            contexts: (0..settings.devices).map(|_| Context::default()).collect(),
            pools: (0..settings.devices as u32).map(Pool::of).collect(),
            memory: Memory::new(memory),
            streams: Streams::default(),
            events: Events::default(),
            modules: Modules::default(),
            identities: 2,
            watches: Watches::default(),
            host: Clock::default(),
            random: Random::new(1),
            eagerness: Eagerness::of(1),
            reports: Reports::new(settings.abort, settings.quiet),
            faults: std::mem::take(&mut settings.faults),
            initialised: false,
            calls: 0,
            moved: Moved::default(),
            settings,
        }
    }

    pub fn init(&mut self, flags: u32) -> Outcome {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if self.settings.devices == 0 {
            return Err(Code::NO_DEVICE);
        }
        self.initialised = true;
        Ok(())
    }

    /// Starts the random numbers anew; what waits keeps waiting.
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
        self.eagerness = Eagerness::of(seed);
    }

    /// Notes a mistake and gives the code of the call that made it.
    pub fn misuse(&mut self, code: Code, text: &str) -> Code {
        self.reports.add(Mistake::Misuse, text);
        code
    }

    /// The program learns that everything in `clock` is finished.
    pub fn host_learns(&mut self, clock: &Clock) {
        self.watches.settle(clock, &mut self.reports);
        self.host.join(clock);
    }
}
