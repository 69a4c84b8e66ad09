//! Communicators, and the progress of what a group has begun.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::cuda::{self, Event, Raw, Unhandled};
use crate::nccl::{IN_PROGRESS, Nccl, REMOTE_ERROR, SUCCESS, UNHANDLED_CUDA_ERROR};

/// The ranks that belong together.
pub struct Clique {
    /// The communicator of each rank that has joined.
    pub members: Vec<Option<usize>>,
    /// A rank has ended its communicator amid work or before others had come.
    is_broken: bool,
}

impl Clique {
    pub fn new(size: usize) -> Clique {
        Clique {
            members: vec![None; size],
            is_broken: false,
        }
    }
}

/// One rank's communicator.
pub struct Comm {
    pub clique: usize,
    pub rank: usize,
    pub context: Raw,
    pub state: c_int,
    pub has_ended: bool,
    /// Where the handle is put again once all ranks have joined, as NCCL does.
    place: Option<(*mut usize, usize)>,
    /// For each receiver, what was sent and not yet taken note of by this rank.
    sends: Vec<VecDeque<Send>>,
    receives: VecDeque<Receive>,
    /// Streams that are to be held up until the end.
    stuck: Option<Arc<AtomicBool>>,
}

// SAFETY: a handle of the driver's may be used by every thread, and so may the program's place for
// this one's.
unsafe impl std::marker::Send for Comm {}

struct Send {
    address: u64,
    bytes: usize,
    stream: Raw,
    /// What comes before it on the sender's stream.
    ready: Event,
    /// The copy, on the receiver's stream.
    taken: Option<Event>,
}

struct Receive {
    from: usize,
    address: u64,
    bytes: usize,
    stream: Raw,
}

/// One side of a message.
pub struct Part {
    pub sends: bool,
    pub peer: usize,
    pub address: u64,
    pub bytes: usize,
    pub stream: Raw,
}

impl Comm {
    pub fn new((clique, rank): (usize, usize), context: Raw, place: (*mut usize, usize)) -> Comm {
        Comm {
            clique,
            rank,
            context,
            state: IN_PROGRESS,
            has_ended: false,
            place: Some(place),
            sends: Vec::new(),
            receives: VecDeque::new(),
            stuck: None,
        }
    }

    /// Whether something that was begun is in progress.
    fn is_busy(&self) -> bool {
        !self.receives.is_empty() || self.sends.iter().any(|sends| !sends.is_empty())
    }

    fn hold_up(&mut self, stream: Raw) -> Result<(), Unhandled> {
        let flag = Arc::clone(self.stuck.get_or_insert_default());
        let data = Arc::into_raw(flag).cast_mut().cast::<c_void>();
        // SAFETY: the function takes over the reference that it is given.
        unsafe { cuda::call(stream, until_set, data) }
    }
}

/// # Safety
/// `data` is a reference to a flag, which is taken over.
unsafe extern "C" fn until_set(data: *mut c_void) {
    // SAFETY: the caller's promise.
    let flag = unsafe { Arc::from_raw(data.cast::<AtomicBool>()) };
    while !flag.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_micros(200));
    }
}

impl Nccl {
    /// Begins what a group has of a communicator.
    pub fn begin(&mut self, index: usize, parts: Vec<Part>) {
        let is_stuck = self.faults.at("stuck").is_some();
        let is_absent = self.faults.at("absent").is_some();
        let size = self.cliques[self.comms[index].clique].members.len();
        let comm = &mut self.comms[index];
        comm.state = IN_PROGRESS;
        comm.sends.resize_with(size, VecDeque::new);
        if is_absent {
            // Something that no rank ever sends keeps it going.
            let from = comm.rank;
            let stream = std::ptr::null_mut();
            return comm.receives.push_back(Receive {
                from,
                address: 0,
                bytes: 0,
                stream,
            });
        }
        let begun = cuda::within(comm.context, || {
            for Part {
                sends,
                peer,
                address,
                bytes,
                stream,
            } in parts
            {
                if is_stuck {
                    comm.hold_up(stream)?;
                }
                if !sends {
                    comm.receives.push_back(Receive {
                        from: peer,
                        address,
                        bytes,
                        stream,
                    });
                    continue;
                }
                let ready = Event::on(stream)?;
                comm.sends[peer].push_back(Send {
                    address,
                    bytes,
                    stream,
                    ready,
                    taken: None,
                });
            }
            Ok(())
        });
        if begun.is_err() {
            comm.state = UNHANDLED_CUDA_ERROR;
        }
    }

    /// What a communicator has come to, after as much progress as its peers allow.
    pub fn go_on(&mut self, index: usize) -> c_int {
        if self.comms[index].state != IN_PROGRESS {
            return self.comms[index].state;
        }
        if let Some(code) = self.faults.at("state") {
            self.comms[index].state = code;
            return code;
        }
        let context = self.comms[index].context;
        let clique = self.comms[index].clique;
        if cuda::within(context, || self.move_parts(index)).is_err() {
            self.comms[index].state = UNHANDLED_CUDA_ERROR;
        }
        let clique = &self.cliques[clique];
        let comm = &mut self.comms[index];
        let all_are_here = clique.members.iter().all(Option::is_some);
        if comm.state == IN_PROGRESS && all_are_here && !comm.is_busy() {
            comm.state = SUCCESS;
            if let Some((place, handle)) = comm.place.take() {
                // SAFETY: the program keeps the place until the communicator has ended.
                unsafe { place.write(handle) };
            }
        } else if comm.state == IN_PROGRESS && clique.is_broken && !self.faults.holds("silent") {
            comm.state = REMOTE_ERROR;
        }
        comm.state
    }

    fn move_parts(&mut self, index: usize) -> Result<(), Unhandled> {
        let Comm {
            clique,
            rank,
            context,
            ..
        } = self.comms[index];
        let mut waiting = VecDeque::new();
        while let Some(receive) = self.comms[index].receives.pop_front() {
            let peer = match receive.address {
                0 => None,
                _ => self.cliques[clique].members[receive.from],
            };
            let sent = peer.and_then(|peer| {
                let comm = &mut self.comms[peer];
                let send = comm
                    .sends
                    .get_mut(rank)?
                    .iter_mut()
                    .find(|send| send.taken.is_none())?;
                Some((send, comm.context))
            });
            let Some((send, context_of_peer)) = sent else {
                waiting.push_back(receive);
                continue;
            };
            if send.bytes != receive.bytes {
                let text = format!(
                    "rank {} sends {} bytes where rank {rank} receives {}",
                    receive.from, send.bytes, receive.bytes
                );
                self.comms[index].state = self.mistake(text);
                return Ok(());
            }
            let from = (send.address, context_of_peer);
            send.ready.before(receive.stream)?;
            cuda::copy(
                (receive.address, context),
                from,
                receive.bytes,
                receive.stream,
            )?;
            // The copy cannot be taken back: who sends has to know of it.
            let taken = Event::on(receive.stream).or_else(|_| Event::on(receive.stream));
            send.taken = Some(taken?);
        }
        self.comms[index].receives = waiting;
        self.take_note(index)
    }

    /// What others have taken is behind this rank's stream, too.
    fn take_note(&mut self, index: usize) -> Result<(), Unhandled> {
        for sends in &mut self.comms[index].sends {
            while let Some(Send {
                stream,
                taken: Some(taken),
                ..
            }) = sends.front()
            {
                taken.before(*stream)?;
                sends.pop_front();
            }
        }
        Ok(())
    }

    /// Ends a communicator, amid work if there is some.
    pub fn end(&mut self, index: usize) {
        let context = self.comms[index].context;
        let clique = self.comms[index].clique;
        // A call of the driver that fails once is made once more.
        for _ in 0..2 {
            if cuda::within(context, || self.take_note(index)).is_ok() {
                break;
            }
        }
        let comm = &mut self.comms[index];
        let amid_work = comm.state != SUCCESS || comm.is_busy();
        comm.has_ended = true;
        comm.receives.clear();
        comm.sends.clear();
        if let Some(stuck) = comm.stuck.take() {
            stuck.store(true, Ordering::Release);
        }
        self.cliques[clique].is_broken |= amid_work;
    }
}
