//! A test of the tests: cases that leave the language must not pass.

use serde_json::{Value as Json, json};

use crate::failure::{Failure, Result, wrong};
use crate::literal::{Element, Literal};
use crate::run::run;
use crate::values;
use crate::{Counts, run_file};

fn scalar() -> Json {
    json!({ "dtype": "float32", "shape": [], "data": [1.0] })
}

/// Steps that are wrong, one case each, and how.
fn wrong_steps() -> Vec<(&'static str, Json)> {
    vec![
        ("an unknown operation", json!({ "op": "guess", "out": "r" })),
        (
            "an unknown field",
            json!({ "op": "has_strategy", "out": "r", "loudly": true }),
        ),
        (
            "a field that is missing",
            json!({ "op": "gather", "value": scalar(), "out": "r" }),
        ),
        (
            "a name that is not bound",
            json!({ "op": "let", "value": "nobody", "out": "r" }),
        ),
        ("an unknown reduction", {
            let value = scalar();
            let op = "PRODUCT";
            json!({ "op": "reduce", "reduce_op": op, "value": value, "axis": null, "out": "r" })
        }),
        ("an unknown dtype", {
            let value = json!({ "dtype": "int4", "shape": [], "data": [1] });
            json!({ "op": "let", "value": value, "out": "r" })
        }),
        ("a number that its dtype does not hold", {
            let value = json!({ "dtype": "int8", "shape": [], "data": [200] });
            json!({ "op": "let", "value": value, "out": "r" })
        }),
        ("more elements than the shape says", {
            let value = json!({ "dtype": "int8", "shape": [2], "data": [1] });
            json!({ "op": "let", "value": value, "out": "r" })
        }),
        ("an unknown operation inside of a body", {
            let body = json!({ "params": [], "steps": [{ "op": "guess" }], "return": null });
            json!({ "op": "run", "body": body })
        }),
        ("a name that is not bound inside of a body", {
            let body = json!({ "params": [], "steps": [], "return": "nobody" });
            json!({ "op": "run", "body": body })
        }),
        ("an unknown transformation", {
            let then = json!([{ "op": "sort" }]);
            let dataset = json!({ "source": { "range": [0, 1, 1] }, "then": then });
            json!({ "op": "dataset", "dataset": dataset, "out": "r" })
        }),
    ]
}

/// Complains of the first case that leaves the language and is run all the same.
pub fn check() -> Result<()> {
    for (mistake, step) in wrong_steps() {
        let case = json!({
            "id": mistake, "replicas": 2, "steps": [step], "expect": {}
        });
        match run(&case) {
            Err(Failure::Case(_)) => {}
            _ => return wrong(format!("{mistake} was not refused: {case}")),
        }
    }
    check_leak()?;
    check_missing_file()
}

/// A file that is not there must count as a failure, also beside one whose cases pass.
fn check_missing_file() -> Result<()> {
    let directory = std::env::temp_dir();
    let path = |name| directory.join(format!("umbo-cases-{}-{name}.json", std::process::id()));
    let good = path("good");
    let missing = path("missing");
    let text = json!([{ "id": "nothing", "replicas": 1, "steps": [], "expect": {} }]).to_string();
    if let Err(error) = std::fs::write(&good, text) {
        return wrong(format!("{}: {error}", good.display()));
    }
    let mut counts = Counts::default();
    println!("of the next two files one is missing, to see that this fails:");
    let ran = run_file(&good, &mut counts).and_then(|()| run_file(&missing, &mut counts));
    let _ = std::fs::remove_file(&good);
    ran?;
    match (counts.passed, counts.failed) {
        (1, 1) => Ok(()),
        (passed, failed) => wrong(format!(
            "a good and a missing file: {passed} passed, {failed} failed"
        )),
    }
}

/// A handle that outlives a case must be noticed.
fn check_leak() -> Result<()> {
    let left_over = values::make_on(&Literal::scalar("float32", Element::Float(1.0))?, None)?;
    let ran = run(&json!({ "id": "a leak", "replicas": 1, "steps": [], "expect": {} }));
    drop(left_over);
    match ran {
        Err(Failure::Case(problem)) if problem.contains("1 handles are alive") => Ok(()),
        _ => wrong("a handle that was alive after a case was not noticed"),
    }
}
