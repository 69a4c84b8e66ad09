//! A position as a text.
//!
//! The text is JSON. It has the version of the format, a description of each stage of the pipeline,
//! the numbers, and a checksum of the stages and the numbers. The descriptions reveal a position of
//! another pipeline; the checksum, one that was damaged or edited.

use std::io::{self, Write};

use serde_json::Value as Json;

use crate::passes::position::Description;
use umbo_base::error::memory::exhausted;
use umbo_base::error::{Error, Result};
use umbo_base::text::shortened;

/// The version of the format.
const VERSION: u64 = 5;

/// The text for a position in a pipeline. RESOURCE_EXHAUSTED if there is no memory for it.
pub(crate) fn write(pipeline: &Description, numbers: &[u64]) -> Result<String> {
    let mut text = Text(Vec::new());
    write_to(&mut text, pipeline.stages(), numbers)
        .map_err(|_| exhausted(numbers.len(), "numbers of a position as a text"))?;
    String::from_utf8(text.0).map_err(|_| Error::Internal("a text that is not UTF-8".into()))
}

fn write_to(text: &mut Text, stages: &[String], numbers: &[u64]) -> io::Result<()> {
    let checksum = checksum(stages, numbers);
    write!(
        text,
        r#"{{"checksum":"{checksum}","iterator_position":{VERSION},"numbers":"#
    )?;
    serde_json::to_writer(&mut *text, numbers)?;
    text.write_all(br#","pipeline":"#)?;
    serde_json::to_writer(&mut *text, stages)?;
    text.write_all(b"}")
}

/// A text whose memory may be refused.
struct Text(Vec<u8>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .try_reserve(bytes.len())
            .map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The numbers in a text that was written for a pipeline like `pipeline`.
///
/// INVALID_ARGUMENT: a text that is not a position, is of another version, is damaged, or is of
/// another pipeline. For the latter, the message names the first difference.
pub(crate) fn read(text: &str, pipeline: &Description) -> Result<Vec<u64>> {
    let parsed: Json = serde_json::from_str(text)
        .map_err(|error| wrong(format!("is not the text of a position: {error}")))?;
    let field = |name: &str| {
        parsed.get(name).ok_or_else(|| {
            wrong(format!(
                "is not the text of a position: it has no field '{name}'"
            ))
        })
    };
    match field("iterator_position")?.as_u64() {
        Some(VERSION) => {}
        _ => {
            return Err(wrong(format!(
                "is of version {}; this library reads version {VERSION}",
                shortened(&field("iterator_position")?.to_string())
            )));
        }
    }
    let list = |name: &str| field(name).cloned();
    let no_list = |error| wrong(format!("is not the text of a position: {error}"));
    let stages: Vec<String> = serde_json::from_value(list("pipeline")?).map_err(no_list)?;
    let numbers: Vec<u64> = serde_json::from_value(list("numbers")?).map_err(no_list)?;
    let expected = checksum(&stages, &numbers);
    if field("checksum")?.as_str() != Some(&expected) {
        return Err(wrong(
            "is damaged: its checksum is not that of its contents; give a text as it was saved"
                .into(),
        ));
    }
    compare(&stages, pipeline.stages())?;
    Ok(numbers)
}

/// Refuses a position with other stages.
fn compare(saved: &[String], own: &[String]) -> Result<()> {
    let count = saved.len().max(own.len());
    let difference = (0..count).find(|&stage| saved.get(stage) != own.get(stage));
    let Some(stage) = difference else {
        return Ok(());
    };
    let name = |stage: Option<&String>| match stage {
        Some(stage) => format!("'{}'", shortened(stage)),
        None => "nothing".into(),
    };
    Err(wrong(format!(
        "is of another pipeline: counted from the end of the pipeline, from 0 on, its stage \
         {stage} is {}, that of the iterator is {}; restore it into an iterator of the pipeline \
         that it was saved of",
        name(saved.get(stage)),
        name(own.get(stage))
    )))
}

fn checksum(stages: &[String], numbers: &[u64]) -> String {
    let mut hasher = crc32fast::Hasher::new();
    for stage in stages {
        hasher.update(&(stage.len() as u64).to_le_bytes());
        hasher.update(stage.as_bytes());
    }
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    format!("{:08x}", hasher.finalize())
}

fn wrong(problem: String) -> Error {
    Error::invalid("position", problem)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pipeline(stages: &[&str]) -> Description {
        let mut description = Description::default();
        stages
            .iter()
            .for_each(|&stage| description.stage(stage.into()));
        description
    }

    #[test]
    fn the_first_difference_is_named() {
        let saved = write(&pipeline(&["batch(3)", "map", "range(5)"]), &[1, 2]).unwrap();
        let refused = |stages: &[&str]| read(&saved, &pipeline(stages)).unwrap_err().to_string();
        let message = refused(&["batch(3)", "shuffle", "range(5)"]);
        assert!(
            message.contains("stage 1 is 'map', that of the iterator is 'shuffle'"),
            "{message}"
        );
        let message = refused(&["batch(3)", "map"]);
        assert!(message.contains("stage 2 is 'range(5)', that of the iterator is nothing"));
        let message = refused(&["batch(3)", "map", "range(5)", "x"]);
        assert!(
            message.contains("stage 3 is nothing, that of the iterator is 'x'"),
            "{message}"
        );
    }

    #[test]
    fn other_texts_are_refused() {
        let own = pipeline(&["range(5)"]);
        let saved = write(&own, &[1, u64::MAX]).unwrap();
        assert_eq!(read(&saved, &own).unwrap(), [1, u64::MAX]);
        let deep = "[".repeat(100_000);
        for text in [
            "",
            "{}",
            "null",
            "7",
            "[]",
            &deep,
            &saved[..saved.len() - 1],
        ] {
            assert!(read(text, &own).is_err(), "{text:.40}");
        }
        for (from, to) in [
            ("\"iterator_position\":5", "\"iterator_position\":1"),
            ("\"iterator_position\":5", "\"iterator_position\":\"1\""),
            ("[1,", "[2,"),
            ("[1,", "[-1,"),
            ("[1,", "[1.5,"),
            ("[1,", "[[1],"),
            ("\"range(5)\"", "[]"),
            ("\"range(5)\"", "\"range(6)\""),
            ("[\"range(5)\"]", "\"range(5)\""),
            ("checksum", "sum"),
        ] {
            assert!(saved.contains(from), "{saved}");
            assert!(
                read(&saved.replace(from, to), &own).is_err(),
                "{from} -> {to}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused(text in ".{0,200}") {
            prop_assert!(read(&text, &pipeline(&["a"])).is_err());
        }

        #[test]
        fn numbers_and_words_come_back(
            stages in proptest::collection::vec(".{0,40}", 0..6),
            numbers in proptest::collection::vec(any::<u64>(), 0..40),
        ) {
            let stages: Vec<&str> = stages.iter().map(String::as_str).collect();
            let own = pipeline(&stages);
            prop_assert_eq!(read(&write(&own, &numbers).unwrap(), &own).unwrap(), numbers);
        }

        /// A damaged text is refused, unless its meaning is unchanged, as with other spaces or escapes.
        #[test]
        fn damage_is_noticed(place in 0usize..10_000, with in any::<u8>()) {
            let own = pipeline(&["batch(3)", "range(5)"]);
            let mut bytes = write(&own, &[3, 1, 4, 1, 5]).unwrap().into_bytes();
            let place = place % bytes.len();
            bytes[place] = with;
            if let Ok(text) = String::from_utf8(bytes)
                && let Ok(numbers) = read(&text, &own)
            {
                prop_assert_eq!(numbers, [3, 1, 4, 1, 5]);
            }
        }
    }
}
