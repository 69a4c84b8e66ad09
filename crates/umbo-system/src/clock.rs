//! Clocks: the system's, and those of a thread.

pub use crate::platform::clock::{coarse, now, on_processor, ready};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let wall = now();
        let processor = on_processor();
        let mut burnt = 0u64;
        while on_processor() == processor {
            burnt = std::hint::black_box(burnt + 1);
        }
        assert!(now() > wall);
        let before = ready();
        assert!(ready() >= before);
    }
}
