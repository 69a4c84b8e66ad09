//! Libraries that are loaded while the process runs: opening them, and which there are.

pub use crate::platform::libraries::{Library, file_of, loaded};

/// A search for the functions of a library by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All libraries, also those that are loaded later.
    Everybody,
    /// The opener of the library alone.
    Opener,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_in_a_library_that_is_loaded() {
        let program = Library::program();
        let found = program.symbol(c"malloc");
        assert!(!found.is_null());
        assert!(program.symbol(c"there_is_no_such_function").is_null());
        let file = file_of(found).unwrap();
        assert!(loaded().contains(&file), "{file:?} in {:?}", loaded());
        assert!(
            !Library::if_loaded(&file)
                .unwrap()
                .symbol(c"malloc")
                .is_null()
        );
        assert!(Library::if_loaded("/no/such/library.so".as_ref()).is_none());
        assert_eq!(file_of(std::ptr::null()), None);
    }
}
