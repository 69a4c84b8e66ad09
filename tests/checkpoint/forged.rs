//! Files whose checksums are right and whose numbers are not: each member of what a file says about its objects
//! is replaced by each of several values, and left out. Nothing is half restored, and what is accepted can be
//! saved and restored again.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use umbo::error::Status;

use crate::scene::{Feature, Folder, Scene, bytes};

/// Where the eight digits of the header's checksum are.
const DIGITS: std::ops::Range<usize> = 62..70;

/// What Umbo says in a file, and the rest of it.
struct Parts {
    header: Json,
    own: Json,
    elements: Vec<u8>,
}

impl Parts {
    fn of(file: &[u8]) -> Parts {
        let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        let header: Json = serde_json::from_slice(&file[8..8 + length]).unwrap();
        let own = serde_json::from_str(header["__metadata__"]["umbo"].as_str().unwrap()).unwrap();
        Parts { header, own, elements: file[8 + length..].to_vec() }
    }

    /// A file that says `own` in place of what it said, with a checksum that is right.
    fn write(&self, own: &Json, path: &Path) {
        let mut header = self.header.clone();
        header["__metadata__"]["umbo"] = own.to_string().into();
        let mut text = header.to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut file = (text.len() as u64).to_le_bytes().to_vec();
        file.append(&mut text);
        file[DIGITS].copy_from_slice(b"00000000");
        let checksum = format!("{:08x}", crc32fast::hash(&file));
        file[DIGITS].copy_from_slice(checksum.as_bytes());
        file.extend(&self.elements);
        fs::write(path, file).unwrap();
    }
}

/// The paths of all members and elements in it, and of those in these.
fn members(json: &Json, path: String, found: &mut Vec<String>) {
    let deeper: Vec<(String, &Json)> = match json {
        Json::Object(members) => {
            let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
            members.iter().map(|(name, json)| (format!("{path}/{}", escaped(name)), json)).collect()
        }
        Json::Array(items) => {
            items.iter().enumerate().map(|(at, json)| (format!("{path}/{at}"), json)).collect()
        }
        _ => Vec::new(),
    };
    for (path, json) in deeper {
        found.push(path.clone());
        members(json, path, found);
    }
}

fn wrong() -> Vec<Json> {
    let bits = |value: f64| json!(format!("{value} ({:#018x})", value.to_bits()));
    let mut all = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(bits).to_vec();
    all.extend([
        Json::Null,
        json!(true),
        json!(-1),
        json!(-0.5),
        json!(1e300),
        json!(1u64 << 53),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(i64::MIN),
        json!("text"),
        json!([]),
        json!({}),
    ]);
    all
}

/// Something of each object.
fn known(scene: &Scene) -> impl PartialEq + use<> {
    let trainers = scene.trainers.iter().map(|(optimizer, gradients)| {
        let state = optimizer.export().unwrap();
        let updates: Vec<_> = state.variables.iter().map(|of| (of.updates, of.running)).collect();
        let runs = gradients.accumulated_runs().unwrap();
        (state.learning_rate, state.iterations, state.loss_scale, updates, runs)
    });
    let numbers = ["epoch", "best loss"].map(|name| scene.checkpoint.number(name).unwrap());
    let steps = scene.strategy.quiet().unwrap().steps();
    let place = scene.iterator.save_position().unwrap();
    (scene.bits(), trainers.collect::<Vec<_>>(), numbers, steps, place)
}

#[test]
fn nothing_is_half_restored() {
    let (mut accepted, mut refused) = (0, 0);
    let all = [
        ("adam", Feature::RowsAccumulation, "/objects"),
        ("custom", Feature::DynamicLossScale, "/objects/optimizer0/dynamic_loss_scale"),
    ];
    for (rule, feature, start) in all {
        let folder = Folder::new();
        let [good, bad, before, after] =
            ["good", "bad", "before", "after"].map(|name| folder.path(name));
        let from = Scene::new(rule, feature, 1);
        from.train(5);
        from.checkpoint.save(&good).unwrap();
        let parts = Parts::of(&bytes(&good));
        // The same as it was, in its own words.
        parts.write(&parts.own, &bad);
        let to = Scene::new(rule, feature, 1);
        to.checkpoint.restore(&bad).unwrap();
        to.checkpoint.restore(&good).unwrap();
        to.train(1);
        to.checkpoint.save(&before).unwrap();
        let unchanged = known(&to);
        let mut paths = vec!["/steps".to_owned()];
        members(&parts.own["objects"], "/objects".into(), &mut paths);
        paths.retain(|path| path.starts_with(start) || *path == "/steps");
        assert!(paths.len() >= 4, "{paths:?}");
        for path in paths {
            for value in wrong().into_iter().map(Some).chain([None]) {
                let case = || format!("{rule}, {feature:?}: {path} is {value:?}");
                let mut own = parts.own.clone();
                match &value {
                    Some(value) => *own.pointer_mut(&path).unwrap() = value.clone(),
                    None => {
                        let (parent, name) = path.rsplit_once('/').unwrap();
                        let name = name.replace("~1", "/").replace("~0", "~");
                        match own.pointer_mut(parent).unwrap() {
                            Json::Object(members) => drop(members.remove(&name)),
                            Json::Array(items) => drop(items.remove(name.parse().unwrap())),
                            _ => unreachable!(),
                        }
                    }
                }
                parts.write(&own, &bad);
                match to.checkpoint.restore(&bad) {
                    Ok(()) => {
                        accepted += 1;
                        to.checkpoint.save(&after).unwrap();
                        let again = to.checkpoint.restore(&after);
                        again.unwrap_or_else(|error| panic!("{}: {error}", case()));
                        to.checkpoint.restore(&before).unwrap();
                    }
                    Err(error) => {
                        refused += 1;
                        let is_told =
                            matches!(error.status(), Status::InvalidArgument | Status::DataLoss);
                        assert!(is_told, "{}: {:?}, {error}", case(), error.status());
                        assert!(known(&to) == unchanged, "{}: {error}", case());
                    }
                }
            }
        }
        // All else that is saved, too.
        to.checkpoint.save(&after).unwrap();
        assert!(bytes(&after) == bytes(&before));
    }
    assert!(accepted > 10 && refused > 1000, "{accepted} accepted, {refused} refused");
}
