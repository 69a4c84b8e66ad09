//! Replicas that share a device take turns on it.
//!
//! A replica has its device from when it gets the turn until it *passes* the turn on: when it
//! arrives in a merge call, and when its callback has returned. So at most one callback runs on a
//! device, also in a step that fails, and replicas that wait for each other in a merge call hold no
//! device. The turn goes to the lowest replica that wants it, and all replicas that want it at the
//! same time are registered before one of them begins. So the first replica of a device is always
//! the first to continue.
//!
//! A replica whose callback has not begun needs no thread yet. A replica that finishes and passes
//! on the turn runs the next one on its own thread; a replica that waits in a merge call posts the
//! step to the next one's thread. The threads of the remaining replicas are notified when the step
//! is abandoned.
//!
//! A step and those nested in it have the same turns, since a replica is at one place in them. A
//! nested one opens while all replicas of the step around it wait. If it is abandoned, so is the
//! outer step: a late replica of the inner step may pass the turn to the outer step, where every
//! replica asks for its turn itself.

use crossbeam_utils::CachePadded;

use umbo_executor::sync::{AtomicBool, Mutex, Ordering};

/// A replica that has the turn from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub replica: usize,
    /// It has not begun, and the caller must begin it. If false, its thread waits, and the caller
    /// must notify it.
    pub is_new: bool,
}

/// The turns of a strategy's steps.
pub struct Turns {
    devices: Box<[CachePadded<Mutex<DeviceTurn>>]>,
    /// The device of each replica.
    device_of: Box<[usize]>,
    has: Box<[CachePadded<AtomicBool>]>,
}

struct DeviceTurn {
    /// The replica that has the turn.
    holder: Option<usize>,
    /// Its replicas, ascending.
    replicas: Box<[ReplicaTurn]>,
}

struct ReplicaTurn {
    replica: usize,
    wants: bool,
    /// Its thread was notified of the step.
    notified: bool,
}

impl DeviceTurn {
    fn place(&mut self, replica: usize) -> Option<&mut ReplicaTurn> {
        self.replicas
            .iter_mut()
            .find(|place| place.replica == replica)
    }

    /// Gives the turn to the first replica that wants it.
    fn give(&mut self, has: &[CachePadded<AtomicBool>]) -> Option<Next> {
        if self.holder.is_some() {
            return None;
        }
        let place = self.replicas.iter_mut().find(|place| place.wants)?;
        place.wants = false;
        let is_new = !std::mem::replace(&mut place.notified, true);
        self.holder = Some(place.replica);
        has[place.replica].store(true, Ordering::Release);
        Some(Next {
            replica: place.replica,
            is_new,
        })
    }
}

impl Turns {
    /// For replicas on these devices, which are numbers from 0 to `devices` less one.
    pub fn new(device_of: Box<[usize]>, devices: usize) -> Turns {
        let of_device = |device: usize| {
            let on_device = device_of
                .iter()
                .enumerate()
                .filter(move |&(_, &replica_device)| replica_device == device);
            let place = |(replica, _)| ReplicaTurn {
                replica,
                wants: false,
                notified: false,
            };
            CachePadded::new(Mutex::new(DeviceTurn {
                holder: None,
                replicas: on_device.map(place).collect(),
            }))
        };
        Turns {
            devices: (0..devices).map(of_device).collect(),
            has: device_of
                .iter()
                .map(|_| CachePadded::new(AtomicBool::new(false)))
                .collect(),
            device_of,
        }
    }

    /// A step opens: all replicas want their devices, and the first of each device has it, and
    /// `notify` is called with it. In the steps around this one all replicas wait.
    pub fn open(&self, mut notify: impl FnMut(usize)) {
        for device in &self.devices {
            let next = {
                let mut device = device.lock();
                device.holder = None;
                for place in &mut device.replicas {
                    (place.wants, place.notified) = (true, false);
                    self.has[place.replica].store(false, Ordering::Relaxed);
                }
                device.give(&self.has)
            };
            if let Some(next) = next {
                notify(next.replica);
            }
        }
    }

    /// Whether two replicas are on one device.
    pub fn share_a_device(&self, one: usize, other: usize) -> bool {
        self.device_of[one] == self.device_of[other]
    }

    /// Whether nobody has the turn on the device of `replica`, or wants it.
    pub fn is_idle(&self, replica: usize) -> bool {
        self.devices[self.device_of[replica]]
            .lock()
            .holder
            .is_none()
    }

    /// Whether `replica` has the turn.
    pub fn has(&self, replica: usize) -> bool {
        self.has[replica].load(Ordering::Acquire)
    }

    /// `replica` does not compute any more, or gives up wanting to. Returns the replica that has
    /// the turn now.
    pub fn pass(&self, replica: usize) -> Option<Next> {
        let mut device = self.devices[self.device_of[replica]].lock();
        device.place(replica)?.wants = false;
        if device.holder != Some(replica) {
            return None;
        }
        device.holder = None;
        self.has[replica].store(false, Ordering::Relaxed);
        device.give(&self.has)
    }

    /// All replicas for which `which` returns true want their turn again; these are the replicas
    /// that got a reply in a merge call.
    pub fn want_again(&self, which: impl Fn(usize) -> bool) {
        for device in &self.devices {
            let mut device = device.lock();
            for place in &mut device.replicas {
                place.wants |= which(place.replica);
            }
            device.give(&self.has);
        }
    }

    /// `replica`, which got no reply, wants its turn, too. Returns whether it has it.
    pub fn want(&self, replica: usize) -> bool {
        let mut device = self.devices[self.device_of[replica]].lock();
        if device.holder != Some(replica) {
            if let Some(place) = device.place(replica) {
                place.wants = true;
            }
            // If nobody has the turn nobody else wants it, so that this one gets it.
            device.give(&self.has);
        }
        device.holder == Some(replica)
    }

    /// The step was abandoned: calls `notify` for each replica whose thread was not notified yet.
    pub fn notify_rest(&self, mut notify: impl FnMut(usize)) {
        for device in &self.devices {
            let mut rest: Vec<usize> = Vec::new();
            for place in device
                .lock()
                .replicas
                .iter_mut()
                .filter(|place| !place.notified)
            {
                place.notified = true;
                rest.push(place.replica);
            }
            rest.into_iter().for_each(&mut notify);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn opened(devices: &[usize]) -> (Turns, Vec<usize>) {
        let count = devices.iter().max().map_or(0, |last| last + 1);
        let turns = Turns::new(devices.into(), count);
        let mut first = Vec::new();
        turns.open(|replica| first.push(replica));
        (turns, first)
    }

    fn next(replica: usize, is_new: bool) -> Option<Next> {
        Some(Next { replica, is_new })
    }

    #[test]
    fn the_first_of_each_device_begins_and_each_passes_to_the_lowest() {
        let (turns, first) = opened(&[0, 1, 0, 1, 0]);
        assert_eq!(first, [0, 1]);
        assert_eq!(
            (turns.has(0), turns.has(1), turns.has(2)),
            (true, true, false)
        );
        assert_eq!(turns.pass(0), next(2, true));
        assert_eq!(turns.pass(2), next(4, true));
        assert_eq!(turns.pass(4), None);
        assert_eq!(turns.pass(1), next(3, true));
        assert!(turns.has(3) && !turns.has(4));
    }

    #[test]
    fn answered_replicas_resume_in_order() {
        let (turns, _) = opened(&[0, 0, 0]);
        (0..3).for_each(|replica| _ = turns.pass(replica));
        turns.want_again(|replica| replica != 0);
        assert!(!turns.has(0) && turns.has(1) && !turns.has(2));
        assert_eq!(turns.pass(1), next(2, false));
        assert_eq!(turns.pass(2), None);
    }

    #[test]
    fn replicas_that_give_up_lose_their_turn() {
        let (turns, _) = opened(&[0, 0, 0]);
        let mut rest = Vec::new();
        turns.notify_rest(|replica| rest.push(replica));
        assert_eq!(rest, [1, 2]);
        turns.notify_rest(|replica| panic!("{replica} is notified twice"));
        assert_eq!(turns.pass(1), None);
        assert_eq!(turns.pass(0), next(2, false));
    }

    #[test]
    fn unanswered_replicas_ask_for_their_turn() {
        let (turns, _) = opened(&[0, 0]);
        assert_eq!(turns.pass(0), next(1, true));
        assert!(!turns.want(0));
        assert_eq!(turns.pass(1), next(0, false));
        assert!(turns.has(0) && turns.want(0));
        assert_eq!(turns.pass(0), None);
        assert!(turns.want(1));
    }
}
