//! Elements that could be made ahead and are not.

use crate::error::Result;
use crate::input::position::{Mark, Reader};
use crate::input::prefetch::restore_input;
use crate::input::stage::Pass;
use crate::values::Value;

/// A pass whose elements are made when they are asked for, and whose position reads like that of one
/// whose elements are made ahead ([`ahead`](crate::input::prefetch::ahead)): which of the two it is may be
/// left to the devices, and a position of the one is one of the other.
pub(super) struct AtOnce(pub(super) Box<dyn Pass<Value>>);

impl Pass<Value> for AtOnce {
    fn next(&mut self) -> Result<Option<Value>> {
        self.0.next()
    }

    fn restart(&mut self) -> Result<()> {
        self.0.restart()
    }

    fn save(&self, to: &mut Mark) {
        // No restart has to be made up for.
        to.push(0);
        to.nest(|to| self.0.save(to));
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        restore_input(&mut *self.0, from)
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        self.0.skip(count)
    }

    fn reserve(&mut self, items: usize) {
        self.0.reserve(items);
    }

    fn announce(&mut self) {
        self.0.announce();
    }
}
