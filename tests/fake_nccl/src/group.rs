//! Groups: what a thread puts together before any of it begins.

use std::cell::RefCell;
use std::ffi::c_int;

use crate::comm::Part;
use crate::cuda::Raw;
use crate::nccl::{INVALID_ARGUMENT, Nccl, SUCCESS};

#[derive(Default)]
struct Group {
    depth: u32,
    parts: Vec<(usize, Part)>,
    /// The first call in it that failed, which the end of the group fails with, too.
    failed: Option<c_int>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

pub fn start() -> c_int {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    SUCCESS
}

/// Notes that a call between start and end has failed.
pub fn note(code: c_int) -> c_int {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 && code != SUCCESS {
            group.failed.get_or_insert(code);
        }
    });
    code
}

impl Nccl {
    /// A send or a receive, which begins at once where there is no group.
    pub fn add(
        &mut self,
        by: &str,
        (comm, peer): (usize, c_int),
        (address, count, datatype): (u64, usize, c_int),
        stream: Raw,
    ) -> c_int {
        let index = match self.comm(comm, by) {
            Ok(index) => index,
            Err(code) => return code,
        };
        let size = self.cliques[self.comms[index].clique].members.len();
        let width = match datatype {
            0 | 1 => 1,
            2 | 3 | 7 => 4,
            4 | 5 | 8 => 8,
            6 | 9 => 2,
            _ => return INVALID_ARGUMENT,
        };
        let Some(peer) = usize::try_from(peer).ok().filter(|&peer| peer < size) else {
            return INVALID_ARGUMENT;
        };
        if self.comms[index].state != SUCCESS {
            let state = self.comms[index].state;
            return self.mistake(format!("{by} while the communicator's state is {state}"));
        }
        let sends = by == "ncclSend";
        let part = Part {
            sends,
            peer,
            address,
            bytes: count * width,
            stream,
        };
        let part = GROUP.with_borrow_mut(|group| match group.depth {
            0 => Some(part),
            _ => {
                group.parts.push((index, part));
                None
            }
        });
        match part {
            Some(part) => {
                self.begin(index, vec![part]);
                self.go_on(index)
            }
            None => SUCCESS,
        }
    }

    /// Begins what was put together. With `fault` it fails, as it does if a call in the group has.
    pub fn end_group(&mut self, fault: Option<c_int>) -> c_int {
        let ended = GROUP.with_borrow_mut(|group| match group.depth {
            0 => None,
            1 => Some(std::mem::take(group)),
            _ => {
                group.depth -= 1;
                Some(Group::default())
            }
        });
        let Some(Group { parts, failed, .. }) = ended else {
            return self.mistake("ncclGroupEnd without ncclGroupStart".into());
        };
        if let Some(code) = fault.or(failed) {
            return code;
        }
        let mut all: Vec<(usize, Vec<Part>)> = Vec::new();
        for (index, part) in parts {
            match all.iter_mut().find(|(other, _)| *other == index) {
                Some((_, parts)) => parts.push(part),
                None => all.push((index, vec![part])),
            }
        }
        let mut last = SUCCESS;
        for (index, parts) in all {
            self.begin(index, parts);
            last = self.go_on(index);
        }
        last
    }
}
