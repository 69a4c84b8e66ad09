//! The update rules that benchmarks measure.

use umbo_core::optimizer::UpdateRule;
use umbo_core::optimizer::rules::catalogue;

/// The rules that are measured by default: one without state, one with one tensor of state, and one
/// with two.
pub const USUAL: [&str; 3] = ["sgd", "momentum", "adamw"];

/// The names of all rules. Variants take as long as the rule that they are variants of.
pub fn names() -> Vec<&'static str> {
    let rules = catalogue::RULES.iter().filter(|rule| !rule.is_variant);
    rules.map(|rule| rule.name).collect()
}

/// The rule of this name, one of [`names`].
pub fn rule_of(name: &str) -> Box<dyn UpdateRule> {
    catalogue::make(name).expect("the name is one of the list")
}

/// Pairs of each name with itself, for an option that chooses from names.
pub fn selves(names: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    names.iter().map(|&name| (name, name)).collect()
}
