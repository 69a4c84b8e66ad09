//! Replicas that share a device take turns on it.
//!
//! A replica has its device from when it is given the turn until it *passes* it on: when it arrives in a
//! merge call and when its callback has returned. So at most one callback runs on a device, whatever
//! becomes of the step, and replicas that wait for each other in a merge call hold no device. The turn
//! goes to the lowest replica that wants it, and replicas that want it together are told so before
//! one of them begins. So the first replica of a device is always the first to go on.
//!
//! A replica whose callback has not begun needs no thread: who has finished and gives it its first turn begins it
//! on the same thread, and who waits in a merge call tells its own thread of the step. The threads of the
//! others are told when the step is given up.
//!
//! A step and those nested in it have the same turns, since a replica is at one place in them. A nested one
//! opens while all replicas of the step around it wait. If it is given up, so is that one: what a late
//! replica of the inner one passes on may be wanted in the outer one, and every replica there asks
//! again for itself.

use crossbeam_utils::CachePadded;

use crate::executor::sync::{AtomicBool, Mutex, Ordering};

/// A replica that has the turn from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    pub replica: usize,
    /// It has not begun, and whoever gets this sees to that. Else its thread waits, and is to look again.
    pub is_new: bool,
}

/// The turns of a strategy's steps.
pub struct Turns {
    devices: Box<[CachePadded<Mutex<Device>>]>,
    /// The device of each replica.
    device_of: Box<[usize]>,
    has: Box<[CachePadded<AtomicBool>]>,
}

struct Device {
    /// Who has the turn.
    holder: Option<usize>,
    /// Its replicas, ascending.
    replicas: Box<[Place]>,
}

struct Place {
    replica: usize,
    wants: bool,
    /// Its thread was told of the step.
    notified: bool,
}

impl Device {
    fn place(&mut self, replica: usize) -> Option<&mut Place> {
        self.replicas.iter_mut().find(|place| place.replica == replica)
    }

    /// Gives the turn to the first that wants it.
    fn give(&mut self, has: &[CachePadded<AtomicBool>]) -> Option<Next> {
        if self.holder.is_some() {
            return None;
        }
        let place = self.replicas.iter_mut().find(|place| place.wants)?;
        place.wants = false;
        let is_new = !std::mem::replace(&mut place.notified, true);
        self.holder = Some(place.replica);
        has[place.replica].store(true, Ordering::Release);
        Some(Next { replica: place.replica, is_new })
    }
}

impl Turns {
    /// For replicas on these devices, which are numbers from 0 to `devices` less one.
    pub fn new(device_of: Box<[usize]>, devices: usize) -> Turns {
        let of_device = |device: usize| {
            let own = device_of.iter().enumerate().filter(move |&(_, &of)| of == device);
            let place = |(replica, _)| Place { replica, wants: false, notified: false };
            CachePadded::new(Mutex::new(Device {
                holder: None,
                replicas: own.map(place).collect(),
            }))
        };
        Turns {
            devices: (0..devices).map(of_device).collect(),
            has: device_of.iter().map(|_| CachePadded::new(AtomicBool::new(false))).collect(),
            device_of,
        }
    }

    /// A step opens: all replicas want their devices, and the first of each device has it, which `notify`
    /// is told. In steps around this one all of them wait.
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
        self.devices[self.device_of[replica]].lock().holder.is_none()
    }

    /// Whether `replica` has the turn.
    pub fn has(&self, replica: usize) -> bool {
        self.has[replica].load(Ordering::Acquire)
    }

    /// `replica` does not compute any more, or gives up wanting to. Returns who has the turn instead.
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

    /// All replicas for which `which` says so want their turn again, as those that were answered in a
    /// merge call do.
    pub fn want_again(&self, which: impl Fn(usize) -> bool) {
        for device in &self.devices {
            let mut device = device.lock();
            for place in &mut device.replicas {
                place.wants |= which(place.replica);
            }
            device.give(&self.has);
        }
    }

    /// `replica`, which nobody has answered, wants its turn, too. Returns whether it has it.
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

    /// The step was given up: tells `notify` whose threads have not been told of it yet.
    pub fn notify_rest(&self, mut notify: impl FnMut(usize)) {
        for device in &self.devices {
            let mut rest: Vec<usize> = Vec::new();
            for place in device.lock().replicas.iter_mut().filter(|place| !place.notified) {
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
        assert_eq!((turns.has(0), turns.has(1), turns.has(2)), (true, true, false));
        assert_eq!(turns.pass(0), next(2, true));
        assert_eq!(turns.pass(2), next(4, true));
        assert_eq!(turns.pass(4), None);
        assert_eq!(turns.pass(1), next(3, true));
        assert!(turns.has(3) && !turns.has(4));
    }

    #[test]
    fn those_that_were_answered_go_on_in_order() {
        let (turns, _) = opened(&[0, 0, 0]);
        (0..3).for_each(|replica| _ = turns.pass(replica));
        turns.want_again(|replica| replica != 0);
        assert!(!turns.has(0) && turns.has(1) && !turns.has(2));
        assert_eq!(turns.pass(1), next(2, false));
        assert_eq!(turns.pass(2), None);
    }

    #[test]
    fn one_that_gives_up_is_passed_over() {
        let (turns, _) = opened(&[0, 0, 0]);
        let mut rest = Vec::new();
        turns.notify_rest(|replica| rest.push(replica));
        assert_eq!(rest, [1, 2]);
        turns.notify_rest(|replica| panic!("{replica} is told twice"));
        assert_eq!(turns.pass(1), None);
        assert_eq!(turns.pass(0), next(2, false));
    }

    #[test]
    fn one_that_nobody_has_answered_asks_for_itself() {
        let (turns, _) = opened(&[0, 0]);
        assert_eq!(turns.pass(0), next(1, true));
        assert!(!turns.want(0));
        assert_eq!(turns.pass(1), next(0, false));
        assert!(turns.has(0) && turns.want(0));
        assert_eq!(turns.pass(0), None);
        assert!(turns.want(1));
    }
}
