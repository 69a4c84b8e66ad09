//! Passes over items that have numbers.

use crate::cardinality::Cardinality;
use crate::passes::IteratorStage;
use crate::passes::given::Stop;
use crate::passes::position::{StateReader, StateWriter};
use umbo_base::error::Result;

/// Items that can be made in any order, and of which none fails for any reason but lack of memory.
pub(crate) trait Indexed: Send + 'static {
    type Item;

    /// The item with number `number`.
    fn item(&mut self, number: u64) -> Result<Self::Item>;

    /// Reserves memory as [`IteratorStage::reserve`] does.
    fn reserve(&mut self, _items: usize) {}
}

impl<T, F: FnMut(u64) -> Result<T> + Send + 'static> Indexed for F {
    type Item = T;

    fn item(&mut self, number: u64) -> Result<T> {
        self(number)
    }
}

/// A pass over the first `count` of `items`, in order.
pub(crate) fn start<I: Indexed>(items: I, count: u64) -> Box<dyn IteratorStage<I::Item>> {
    Box::new(IndexedPass {
        items,
        next: 0,
        count,
    })
}

struct IndexedPass<I> {
    items: I,
    next: u64,
    count: u64,
}

impl<I: Indexed> IteratorStage<I::Item> for IndexedPass<I> {
    fn next(&mut self) -> Result<Option<I::Item>> {
        if self.next == self.count {
            return Ok(None);
        }
        let item = self.items.item(self.next)?;
        self.next += 1;
        Ok(Some(item))
    }

    fn skip(&mut self, left: &mut u64, _stop: &Stop) -> Result<()> {
        let skipped = (self.count - self.next).min(*left);
        self.next += skipped;
        *left -= skipped;
        Ok(())
    }

    fn certain(&self) -> Option<Cardinality> {
        Some(Cardinality::Exact(self.count))
    }

    fn restart(&mut self) -> Result<()> {
        self.next = 0;
        Ok(())
    }

    fn save(&self, to: &mut StateWriter) {
        to.push(self.next);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.next = from.at_most(self.count, "the number of the next item")?;
        Ok(())
    }

    fn reserve(&mut self, items: usize) {
        self.items.reserve(items);
    }
}
