//! Places in a dataset, as text.

use serde_json::{Value as Json, json};
use umbo_core::input::{Dataset, PassIterator, ShuffleOptions};

/// The pipelines that positions are restored into, each with the number of elements that it may
/// have.
fn pipelines() -> Vec<Dataset> {
    let numbers = |count| Dataset::range(0, count, 1).expect("numbers");
    let shuffle = ShuffleOptions {
        buffer_size: 4,
        seed: 7,
        keep_order_each_pass: false,
    };
    let shuffled = numbers(9).shuffle(&shuffle).expect("a shuffle");
    let batches = shuffled
        .repeat(2)
        .and_then(|all| all.batch(4, false))
        .expect("batches");
    let cached = numbers(5)
        .cache()
        .and_then(|all| all.skip(1))
        .expect("a cache");
    let joined = Dataset::concatenate(&[numbers(3), numbers(4)])
        .and_then(|all| all.take(6))
        .expect("a row");
    let rebatched = batches.rebatch(&[3, 1], false).expect("other batches");
    vec![
        batches,
        cached,
        joined,
        rebatched,
        numbers(6).prefetch(2).expect("a prefetch"),
    ]
}

/// Whatever text comes: a refused one changes nothing, one that is accepted leads to elements.
///
/// The first byte says which pipeline. Of a text that is JSON, the position is kept and its
/// checksum is made right, so that what is behind the checksum is reached.
pub fn run(bytes: &[u8]) {
    let Some((&first, text)) = bytes.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let pipelines = pipelines();
    let pass = pipelines[usize::from(first) % pipelines.len()]
        .iterator()
        .expect("a pass");
    let text = sealed(text, &pass);
    pass.next().expect("a first element");
    let before = pass.save_position().expect("a position");
    match pass.restore_position(&text) {
        Err(_) => assert_eq!(pass.save_position().expect("a position"), before),
        Ok(()) => {
            let there = pass.save_position().expect("a position");
            let elements = take(&pass);
            pass.restore_position(&there)
                .expect("the position of an accepted one");
            assert_eq!(take(&pass), elements, "another element at the same place");
        }
    }
}

fn take(pass: &PassIterator) -> Vec<Vec<i64>> {
    let next = || {
        let element = pass.next().expect("an element")?;
        Some(
            element
                .tensor_of(0)
                .and_then(|tensor| tensor.to_vec())
                .expect("numbers"),
        )
    };
    std::iter::from_fn(next).take(20).collect()
}

/// With the format and the stages of the pipeline itself if they are left out, and with the
/// checksum.
fn sealed(text: &str, pass: &PassIterator) -> String {
    let Ok(mut json) = serde_json::from_str::<Json>(text) else {
        return text.into();
    };
    let own: Json = serde_json::from_str(&pass.save_position().expect("a position")).expect("JSON");
    let Some(fields) = json.get_mut(POSITION).and_then(Json::as_object_mut) else {
        return text.into();
    };
    for name in ["format", "pipeline"] {
        fields
            .entry(name)
            .or_insert_with(|| own[POSITION][name].clone());
    }
    let checksum = crc32fast::hash(json[POSITION].to_string().as_bytes());
    json["crc32"] = json!(format!("{checksum:08x}"));
    json.to_string()
}

const POSITION: &str = "iterator_position";

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, pipeline) in pipelines().iter().enumerate() {
        let pass = pipeline.iterator().expect("a pass");
        for _ in 0..3 {
            let text = pass.save_position().expect("a position");
            let mut json: Json = serde_json::from_str(&text).expect("JSON");
            // Short ones are changed where it matters.
            json[POSITION]
                .as_object_mut()
                .expect("an object")
                .retain(|name, _| name == "numbers");
            seeds.push([&[number as u8], json.to_string().as_bytes()].concat());
            seeds.push([&[number as u8], text.as_bytes()].concat());
            pass.next().expect("an element");
        }
    }
    seeds
}
