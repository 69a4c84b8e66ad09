//! Checks for every engine: arguments are checked, only one call is made at a time, and an engine
//! that has failed is not called any more.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use super::communicator::{Communicator, EngineCall, RankPlace, Vote, check_size};
use parking_lot::Mutex;
use umbo_base::error::{Error, Result};

/// An engine that gets only valid calls.
pub struct CheckedCommunicator {
    engine: Box<dyn Communicator>,
    /// Held during a call. An error says how an earlier call has failed.
    state: Mutex<Result<(), Cow<'static, str>>>,
}

impl fmt::Debug for CheckedCommunicator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "rank {} of {}",
            self.engine.rank(),
            self.engine.size()
        )
    }
}

impl CheckedCommunicator {
    /// Checks the place that `engine` reports. In messages, the arguments have the names of the
    /// getters.
    pub fn new(engine: Box<dyn Communicator>) -> Result<CheckedCommunicator> {
        let rank = engine.rank();
        let size = engine.size();
        let RankPlace {
            node_rank,
            node_size,
            ..
        } = engine.place();
        check_size(size)?;
        if rank >= size {
            return Err(invalid!("rank", "{rank} is not in [0, {size}), the ranks"));
        }
        if node_size > size {
            let problem = format!("{node_size}; a machine has at most all {size} ranks");
            return Err(Error::invalid("node_rank_count", problem));
        }
        if node_rank >= node_size {
            let problem = format!("{node_rank} is not in [0, {node_size}), those of this machine");
            return Err(Error::invalid("node_rank", problem));
        }
        Ok(CheckedCommunicator {
            engine,
            state: Mutex::new(Ok(())),
        })
    }

    /// Checks that a call is valid: that counts fit the memory, and that a rank receives from
    /// itself as many bytes as it sends to itself.
    fn check(&self, call: &EngineCall<'_>) -> Result<()> {
        let rank = self.rank();
        let size = self.size();
        match call {
            EngineCall::AllToAll {
                send,
                send_counts,
                receive,
                receive_counts,
            } => {
                self.check_counts(send_counts, &send.sizes(), "send_bytes")?;
                self.check_counts(receive_counts, &receive.sizes(), "receive_bytes")?;
                let sent = send_counts[rank];
                let received = receive_counts[rank];
                if sent != received {
                    let problem =
                        format!("rank {rank} sends itself {sent} bytes and receives {received}");
                    return Err(Error::invalid("receive_bytes", problem));
                }
            }
            EngineCall::AllGather {
                send,
                receive,
                counts,
            } => {
                self.check_counts(counts, &receive.sizes(), "bytes")?;
                let sizes = send.sizes();
                if !sizes.contains(&counts[rank]) {
                    let due = counts[rank];
                    let there = sizes.end();
                    let problem = format!("rank {rank} sends {there} bytes; {due} are expected");
                    return Err(Error::invalid("bytes", problem));
                }
            }
            EngineCall::Broadcast { root, .. } if *root >= size => {
                let problem = format!("{root} is not in [0, {size}), the ranks");
                return Err(Error::invalid("root", problem));
            }
            EngineCall::Broadcast { .. } | EngineCall::Vote(_) | EngineCall::Barrier => {}
        }
        Ok(())
    }

    fn check_counts(
        &self,
        counts: &[usize],
        sizes: &RangeInclusive<usize>,
        argument: &'static str,
    ) -> Result<()> {
        let size = self.engine.size();
        if counts.len() != size {
            let problem = format!("has {} numbers; one for each of {size} ranks", counts.len());
            return Err(Error::invalid(argument, problem));
        }
        let sum = counts
            .iter()
            .try_fold(0_usize, |sum, &count| sum.checked_add(count));
        if !sum.is_some_and(|sum| sizes.contains(&sum)) {
            let sum = sum.map_or_else(|| "too large a number".to_owned(), |sum| sum.to_string());
            let problem = format!("adds up to {sum}; {} bytes are there", sizes.end());
            return Err(Error::invalid(argument, problem));
        }
        Ok(())
    }
}

impl Communicator for CheckedCommunicator {
    fn place(&self) -> RankPlace {
        self.engine.place()
    }

    fn call(&self, call: EngineCall<'_>) -> Result<()> {
        self.check(&call)?;
        let Some(mut state) = self.state.try_lock() else {
            return Err(Error::precondition(
                "another call of this communicator is in progress; the calls of a rank follow one \
                 another, in the same order on all ranks",
            ));
        };
        if let Err(how) = &*state {
            return Err(Error::Unavailable(format!(
                "an earlier call of this communicator failed, and it can no longer be used: {how}"
            )));
        }
        self.engine.check_thread()?;
        // This stays if the call does not return.
        *state = Err(Cow::Borrowed("it was left by an exception or a panic"));
        let result = self.engine.call(call);
        *state = result.as_ref().copied().map_err(described);
        result
    }

    fn check_thread(&self) -> Result<()> {
        self.engine.check_thread()
    }

    fn moves_device_memory(&self) -> bool {
        self.engine.moves_device_memory()
    }

    fn abort(&self, error: &Error) {
        // An engine may not support this while a call is in progress. That call fails by itself.
        if let (Some(mut state), Ok(())) = (self.state.try_lock(), self.engine.check_thread()) {
            *state = Err(described(error));
            self.engine.abort(error);
        }
    }

    fn vote(&self, number: i64) -> Result<Vote> {
        let mut vote = Vote {
            least: number,
            greatest: number,
        };
        self.call(EngineCall::Vote(&mut vote))?;
        if (vote.least..=vote.greatest).contains(&number) {
            return Ok(vote);
        }
        let problem = format!(
            "vote: this rank said {number}, and the engine says that the ranks said {} to {}",
            vote.least, vote.greatest
        );
        let error = Error::DataLoss(problem);
        *self.state.lock() = Err(described(&error));
        Err(error)
    }
}

fn described(error: &Error) -> Cow<'static, str> {
    Cow::Owned(format!("{}: {error}", error.status().name()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A single rank, which counts its calls and fails in one of them.
    #[derive(Default)]
    struct Alone {
        size: usize,
        rank: usize,
        node_size: usize,
        calls: AtomicUsize,
        fails_in: Option<usize>,
        vote_is_off: bool,
    }

    impl Communicator for Alone {
        fn place(&self) -> RankPlace {
            RankPlace {
                rank: self.rank,
                size: self.size,
                node_rank: 0,
                node_size: self.node_size,
            }
        }
        fn call(&self, call: EngineCall<'_>) -> Result<()> {
            match call {
                EngineCall::AllToAll { send, receive, .. }
                | EngineCall::AllGather { send, receive, .. } => {
                    receive.on_host()?.copy_from_slice(send.on_host()?);
                }
                EngineCall::Vote(vote) if self.vote_is_off => {
                    (vote.least, vote.greatest) = (vote.least + 1, vote.greatest + 1);
                }
                _ => {}
            }
            match Some(self.calls.fetch_add(1, Ordering::Relaxed)) == self.fails_in {
                true => Err(Error::DeadlineExceeded("nobody came".into())),
                false => Ok(()),
            }
        }
        fn abort(&self, _: &Error) {
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn alone() -> Alone {
        Alone {
            size: 1,
            node_size: 1,
            ..Alone::default()
        }
    }

    fn checked(engine: Alone) -> Result<CheckedCommunicator> {
        CheckedCommunicator::new(Box::new(engine))
    }

    #[test]
    fn rank_and_size_of_an_engine_are_checked() {
        for (rank, size, node_size, argument) in [
            (1, 1, 1, "rank"),
            (0, 0, 0, "rank"),
            (0, 2, 3, "node_rank_count"),
            (0, 1, 0, "node_rank"),
        ] {
            let error = checked(Alone {
                rank,
                size,
                node_size,
                ..Alone::default()
            })
            .unwrap_err();
            assert!(error.to_string().starts_with(argument), "{error}");
        }
    }

    #[test]
    fn wrong_counts_are_refused_before_the_engine() {
        let communicator = checked(alone()).unwrap();
        let mut to = [0; 2];
        for error in [
            communicator
                .all_to_all(&[1], &[1], &mut to, &[2])
                .unwrap_err(),
            communicator
                .all_to_all(&[1], &[1, 0], &mut to[..1], &[1])
                .unwrap_err(),
            communicator
                .all_to_all(&[1], &[2], &mut to[..1], &[1])
                .unwrap_err(),
            communicator.all_gather(&[1], &mut to, &[2]).unwrap_err(),
            communicator.all_gather(&[1], &mut to, &[1]).unwrap_err(),
            communicator.broadcast(&mut to, 1).unwrap_err(),
        ] {
            assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
        }
        communicator.all_gather(&[7], &mut to[..1], &[1]).unwrap();
        assert_eq!(to, [7, 0]);
    }

    #[test]
    fn failed_engine_gets_no_more_calls() {
        let communicator = checked(Alone {
            fails_in: Some(1),
            ..alone()
        })
        .unwrap();
        communicator.barrier().unwrap();
        assert!(matches!(
            communicator.barrier(),
            Err(Error::DeadlineExceeded(_))
        ));
        let later = communicator.vote(3).unwrap_err().to_string();
        assert!(later.contains("DEADLINE_EXCEEDED: nobody came"), "{later}");
        assert!(communicator.barrier().is_err());
    }

    #[test]
    fn votes_must_include_the_own_number() {
        let communicator = checked(Alone {
            vote_is_off: true,
            ..alone()
        })
        .unwrap();
        assert!(matches!(communicator.vote(3), Err(Error::DataLoss(_))));
        assert!(communicator.barrier().is_err());
    }

    #[test]
    fn aborted_communicator_refuses_calls() {
        let communicator = checked(alone()).unwrap();
        communicator.abort(&Error::Cancelled("no more".into()));
        assert!(
            communicator
                .barrier()
                .unwrap_err()
                .to_string()
                .contains("CANCELLED: no more")
        );
    }
}
