//! Values within nests, by their paths.

use super::Value;
use umbo_base::error::{Error, Result};

impl Value {
    /// The value at a path, which is field names and item numbers joined by dots. The result is
    /// borrowed, so that no reference is counted.
    ///
    /// Names may be empty or contain dots, such as those of arrays in files. If a path can be read
    /// in several ways, the way with the longest names counts.
    pub fn at_path(&self, path: &str) -> Result<&Value> {
        self.find_path(path).ok_or_else(|| {
            // The message names the missing part as if no name had a dot.
            let mut value = self;
            for step in path.split('.') {
                match value.step(step) {
                    Some(found) => value = found,
                    None => return Error::NotFound(value.no_such(step)),
                }
            }
            Error::Internal(format!("'{path}' was found in parts, but not as a whole"))
        })
    }

    fn find_path(&self, path: &str) -> Option<&Value> {
        if let Some(whole) = self.step(path) {
            return Some(whole);
        }
        // The search starts at the last dot, so that the longest name comes first.
        path.rmatch_indices('.')
            .find_map(|(dot, _)| self.step(&path[..dot])?.find_path(&path[dot + 1..]))
    }

    pub(super) fn step(&self, step: &str) -> Option<&Value> {
        if let Value::Nest(nest) = self {
            nest.step(step)
        } else {
            None
        }
    }

    fn no_such(&self, step: &str) -> String {
        let Value::Nest(nest) = self else {
            return format!(
                "name: '{step}' asks {} for a field; it has none",
                self.kind_name()
            );
        };
        match nest.names() {
            Some(names) => {
                let names: Vec<_> = names.iter().map(|name| format!("'{name}'")).collect();
                format!(
                    "name: there is no field '{step}'; the struct has {}",
                    names.join(", ")
                )
            }
            None => {
                let kind = nest.kind_name().trim_start_matches("a ");
                let count = self.count();
                format!("name: there is no item '{step}'; the {kind} has {count} items")
            }
        }
    }
}
