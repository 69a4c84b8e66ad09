//! What a tensor knows of the global batch that it is a part of.

use std::sync::Arc;

/// The part of a global batch that a tensor is.
#[derive(Clone, Debug)]
pub struct BatchShare {
    /// How many examples of the batch it holds.
    pub examples: u64,
    /// Which batch, if several processes have read the same one, each to take its part.
    pub origin: Option<Origin>,
}

/// A batch that several processes have read, and how it came about.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "names and types say it")]
pub struct Origin {
    pub source: Arc<BatchSource>,
    /// How often its pass had begun anew.
    pub round: u64,
    /// Its number in the round, from 0; batches that failed have one, too.
    pub element: u64,
    /// Examples of the whole batch.
    pub examples: u64,
}

impl Origin {
    /// Whether both are of the same element of one pass, of which they may be different tensors.
    pub fn is_of_element(&self, other: &Origin) -> bool {
        Arc::ptr_eq(&self.source, &other.source)
            && (self.round, self.element) == (other.round, other.element)
    }
}

/// What a batch was read from: names of what must be the same in all processes, with how it is in this one.
#[derive(Debug)]
pub struct BatchSource {
    /// In order.
    pub quantities: Vec<(String, String)>,
}
