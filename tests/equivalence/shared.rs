//! All of these tests where replicas take turns on their devices: the check says the same.

use std::process::Command;

use crate::setup::{Model, SHARES};
use umbo_core::optimizer::LossReduction;

#[test]
fn the_check_says_the_same_of_replicas_that_share_devices() {
    if std::env::var_os(SHARES).is_some() {
        let strategy = Model::new(5, LossReduction::Sum).strategy;
        return assert_eq!(
            (strategy.num_replicas(), strategy.compute_devices().len()),
            (5, 3)
        );
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .env(SHARES, "1")
        .output()
        .unwrap();
    let text = output.stdout;
    let errors = output.stderr;
    let text = String::from_utf8_lossy(&text);
    let errors = String::from_utf8_lossy(&errors);
    assert!(output.status.success(), "{text}\n{errors}");
    let passed = text
        .split("test result: ok. ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    assert!(passed.unwrap().parse::<usize>().unwrap() > 50, "{text}");
}
