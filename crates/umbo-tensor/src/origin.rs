//! The global batch of which a tensor is a part.

use std::sync::Arc;

/// The part of a global batch that a tensor holds.
#[derive(Clone, Debug)]
pub struct BatchShare {
    /// The number of examples of the batch it holds.
    pub examples: u64,
    /// The batch, if several processes have read it and each took its part.
    pub origin: Option<Origin>,
}

/// A batch that several processes have read, and its origin.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "names and types say it")]
pub struct Origin {
    pub source: Arc<BatchSource>,
    /// The number of times that its pass had started again.
    pub round: u64,
    /// Its number in the round, from 0. Batches that failed have a number, too.
    pub element: u64,
    /// The rounds of all shuffles in its pipeline, in one number.
    pub shuffles: u64,
    /// The number of examples the whole batch has.
    pub examples: u64,
    /// The checksum of a sample of the tensor in the whole batch, if processes compare it.
    pub checksum: Option<u32>,
}

impl Origin {
    /// Whether both are the same element of one pass. They may still be different tensors of it.
    pub fn is_of_element(&self, other: &Origin) -> bool {
        Arc::ptr_eq(&self.source, &other.source)
            && (self.round, self.element) == (other.round, other.element)
            && self.shuffles == other.shuffles
    }
}

/// The source of a batch: quantities that must be equal in all processes, by name, with their
/// values in this process.
#[derive(Debug)]
pub struct BatchSource {
    /// Names and values, in order.
    pub quantities: Vec<(String, String)>,
}
