//! Descriptors: what each rank has to say at the beginning of a collective. A descriptor says where
//! the rank is in the program, and whether it failed.

use umbo_base::error::{Error, Result, Status};

/// Bytes of a descriptor on the wire.
pub(super) const BYTES: usize = 256;

/// The first bytes of every descriptor: what it is and how it is laid out.
pub(super) const MAGIC: u32 = 0x554d_4204;

/// The number of words that stand before the text. The last of them is a checksum of all other
/// bytes, so that damaged values, such as a length, are not used.
const WORDS: usize = 10;

/// The place where the text begins.
const TEXT_AT: usize = WORDS * size_of::<u64>();

/// How long a text may be.
const TEXT: usize = BYTES - TEXT_AT;

enum_with_all! {
    /// The purpose of a collective.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    pub enum CollectiveKind {
        /// A strategy is made.
        Strategy = 1,
        /// A variable is made.
        Variable = 2,
        /// A run begins.
        Run = 3,
        /// The commit point of a step, or of a change outside of one.
        Commit = 4,
        /// A value is gathered from all ranks.
        Value = 5,
        /// A value is reduced.
        Reduce = 6,
        /// A variable is written in replica context.
        Assign = 7,
        /// An update exchanges gradients.
        Gradients = 8,
        /// Weights are compared.
        Fingerprint = 9,
        /// A part of the input is taken.
        Input = 10,
        /// Sharded state is gathered.
        State = 11,
    }
}

/// Sent instead of the number of examples by a rank that could not begin a run and passes over the
/// element.
pub const PASSED_OVER: u64 = u64::MAX;

/// Sent instead of the number of examples by a rank whose pass has ended. How many steps its epoch
/// had follows.
pub const PASS_ENDED: u64 = u64::MAX - 1;

/// The descriptor of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub kind: CollectiveKind,
    /// OK, or the status with which this rank has failed.
    pub status: Status,
    /// The id of the strategy, the same on all ranks.
    pub strategy: u64,
    /// The number of the series in the strategy, and below of the collective in the series.
    pub series: u64,
    pub operation: u64,
    /// The step that the rank is in, for messages; 0 outside of steps.
    pub step: u64,
    /// The hash of the quantities that must be equal on all ranks: names, shapes and the like.
    pub agreement: u64,
    /// Numbers for the other ranks; their meaning depends on the kind.
    pub numbers: [u64; 2],
    /// The number of bytes the rank sends to all others if the descriptors agree.
    pub length: u64,
    /// The rank's operation, or the message of its failure, cut to fit.
    pub text: String,
}

impl Descriptor {
    /// Encodes the descriptor. A text that is too long is cut between two characters.
    pub fn encode(&self) -> [u8; BYTES] {
        let text = &self.text[..self.text.floor_char_boundary(TEXT)];
        let words: [u64; WORDS] = [
            u64::from(MAGIC)
                | (self.kind as u64) << 32
                | (self.status.code() as u64) << 40
                | (text.len() as u64) << 48,
            self.strategy,
            self.series,
            self.operation,
            self.step,
            self.agreement,
            self.numbers[0],
            self.numbers[1],
            self.length,
            0,
        ];
        let mut bytes = [0; BYTES];
        bytes[TEXT_AT..TEXT_AT + text.len()].copy_from_slice(text.as_bytes());
        let (places, _) = bytes.as_chunks_mut();
        places
            .iter_mut()
            .zip(words)
            .for_each(|(place, word)| *place = word.to_le_bytes());
        let checksum = checksum(&bytes);
        bytes[TEXT_AT - size_of::<u64>()..TEXT_AT].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the descriptor of rank `rank`. DATA_LOSS if it is none of this version of the
    /// library.
    pub fn decode(bytes: &[u8], rank: usize) -> Result<Descriptor> {
        let decode = || {
            let (chunks, _) = bytes.get(..BYTES)?.as_chunks();
            let word = |at: usize| u64::from_le_bytes(chunks[at]);
            let first = word(0);
            let kind = bytes[4];
            let status = bytes[5];
            (first as u32 == MAGIC && word(WORDS - 1) == checksum(bytes)).then_some(())?;
            let text = bytes[TEXT_AT..].get(..(first >> 48) as usize)?;
            Some(Descriptor {
                kind: CollectiveKind::ALL
                    .into_iter()
                    .find(|candidate| *candidate as u8 == kind)?,
                status: Status::from_code(status.into())?,
                strategy: word(1),
                series: word(2),
                operation: word(3),
                step: word(4),
                agreement: word(5),
                numbers: [word(6), word(7)],
                length: word(8),
                text: String::from_utf8_lossy(text).into_owned(),
            })
        };
        decode().ok_or_else(|| {
            let message = format!(
                "rank {rank} has sent bytes that are not a message of this version of umbo, or \
                 were damaged on their way; run the same version on all ranks, and let nothing \
                 else use the communicator"
            );
            Error::Rank {
                rank: Some(rank),
                status: Status::DataLoss,
                message,
            }
        })
    }

    /// Whether two ranks are at the same operation of the same program.
    pub fn is_with(&self, other: &Descriptor) -> bool {
        let place = |it: &Descriptor| (it.strategy, it.series, it.operation, it.kind);
        place(self) == place(other)
    }

    /// The hash that must be equal on all ranks that have one. A rank that could not make an
    /// element begins a run without one, in order to fail.
    pub fn agreed(&self) -> Option<u64> {
        (self.kind != CollectiveKind::Run || self.agreement != 0).then_some(self.agreement)
    }

    /// A description of the rank's operation, for messages.
    pub fn about(&self) -> String {
        let step = match self.step {
            0 => "outside of steps".to_owned(),
            step => format!("in step {step}"),
        };
        format!(
            "{} (call {} of the ranks, {step})",
            self.text, self.operation
        )
    }
}

/// The checksum of all other bytes of a descriptor.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..TEXT_AT - size_of::<u64>()]);
    hasher.update(&bytes[TEXT_AT..]);
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(text: &str) -> Descriptor {
        Descriptor {
            kind: CollectiveKind::Gradients,
            status: Status::DataLoss,
            strategy: 1,
            series: u64::MAX,
            operation: 3,
            step: 4,
            agreement: 5,
            numbers: [6, 7],
            length: 8,
            text: text.into(),
        }
    }

    #[test]
    fn descriptors_round_trip() {
        for text in ["", "a run", &"x".repeat(TEXT)] {
            let sent = descriptor(text);
            assert_eq!(Descriptor::decode(&sent.encode(), 0).unwrap(), sent);
        }
        for kind in CollectiveKind::ALL {
            let sent = Descriptor {
                kind,
                ..descriptor("")
            };
            assert_eq!(Descriptor::decode(&sent.encode(), 0).unwrap().kind, kind);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        for before in 0..4 {
            let text = "a".repeat(before) + &"\u{1d11e}".repeat(TEXT);
            let came = Descriptor::decode(&descriptor(&text).encode(), 0)
                .unwrap()
                .text;
            assert!(text.starts_with(&came) && came.len() > TEXT - 4, "{came}");
        }
    }

    #[test]
    fn malformed_descriptors_are_refused() {
        let sent = descriptor("text").encode();
        for at in 0..BYTES {
            let mut bytes = sent;
            bytes[at] ^= 0x40;
            let error = Descriptor::decode(&bytes, 3).unwrap_err();
            assert_eq!(error.status(), Status::DataLoss);
            assert!(error.to_string().contains("rank 3"), "{error}");
        }
        assert!(Descriptor::decode(&sent[..40], 3).is_err());
    }
}
