//! A position as it is saved: in a checkpoint, or as a text.
//!
//! A saved position has the version of the format, the signature of each stage of the pipeline, and
//! the numbers. The signatures reveal a position of another pipeline. A text is JSON: the position,
//! and the checksum of its characters, which reveals that it was damaged or edited.
//! `docs/internals/formats.md` has the rules by which the format changes.

use std::fmt;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::passes::position::Description;
use crate::passes::signature::Signature;
use umbo_base::checksum::Crc32;
use umbo_base::error::memory::{self, exhausted};
use umbo_base::error::{Error, Result};
use umbo_base::text::shortened;

/// The version of the format. A position of another version is refused.
const FORMAT: u64 = 1;

/// A position in a pipeline. Fields that it does not name are those of later libraries, which have
/// made sure that it can be read without them.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedPosition {
    format: u64,
    pipeline: Vec<Signature>,
    numbers: Vec<u64>,
}

/// The part that every version of the format has.
#[derive(Deserialize)]
struct AnyPosition {
    format: u64,
}

/// The text of a position. It is alike in all versions of the format.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedPosition<'a> {
    #[serde(borrow)]
    iterator_position: &'a RawValue,
    crc32: Crc32,
}

impl SavedPosition {
    /// RESOURCE_EXHAUSTED if there is no memory for it.
    pub(crate) fn new(pipeline: &Description, numbers: &[u64]) -> Result<SavedPosition> {
        let mut copy = memory::list(numbers.len(), "numbers of a position")?;
        copy.extend_from_slice(numbers);
        Ok(SavedPosition {
            format: FORMAT,
            pipeline: pipeline.stages().to_vec(),
            numbers: copy,
        })
    }

    /// A position that was saved as JSON.
    ///
    /// INVALID_ARGUMENT: not a position, or of another version.
    pub fn from_json(json: &Json) -> Result<SavedPosition> {
        check_format(AnyPosition::deserialize(json))?;
        SavedPosition::deserialize(json).map_err(foreign)
    }

    /// The position in a text that [`SavedPosition::to_text`] has written.
    ///
    /// INVALID_ARGUMENT: a text that is not a position, is of another version, or is damaged.
    pub(crate) fn from_text(text: &str) -> Result<SavedPosition> {
        let sealed: SealedPosition = serde_json::from_str(text).map_err(foreign)?;
        let position = sealed.iterator_position.get();
        if Crc32::of(position.as_bytes()) != sealed.crc32 {
            return Err(wrong(
                "is damaged: its checksum is not that of its contents; give a text as it was saved"
                    .into(),
            ));
        }
        check_format(serde_json::from_str(position))?;
        serde_json::from_str(position).map_err(foreign)
    }

    /// The position as a text. RESOURCE_EXHAUSTED if there is no memory for it.
    pub(crate) fn to_text(&self) -> Result<String> {
        let mut text = Text(Vec::new());
        sealed(&mut text, self)
            .map_err(|_| exhausted(self.numbers.len(), "numbers of a position as a text"))?;
        String::from_utf8(text.0).map_err(|_| Error::Internal("a text that is not UTF-8".into()))
    }

    /// The numbers, for a pipeline like the one that the position was saved of.
    ///
    /// INVALID_ARGUMENT: it was another pipeline. The message names the first difference.
    pub(crate) fn numbers_for(&self, pipeline: &Description) -> Result<&[u64]> {
        compare(&self.pipeline, pipeline.stages())?;
        Ok(&self.numbers)
    }
}

fn check_format(position: serde_json::Result<AnyPosition>) -> Result<()> {
    let AnyPosition { format } = position.map_err(foreign)?;
    if format != FORMAT {
        return Err(wrong(format!(
            "is of version {format} of the format; this library reads version {FORMAT}"
        )));
    }
    Ok(())
}

fn foreign(error: impl fmt::Display) -> Error {
    wrong(format!("is not a saved position: {error}"))
}

/// Writes a [`SealedPosition`] around `position`, in place: a large one takes its memory once.
fn sealed(text: &mut Text, position: &impl Serialize) -> io::Result<()> {
    text.write_all(br#"{"iterator_position":"#)?;
    let start = text.0.len();
    serde_json::to_writer(&mut *text, position)?;
    let checksum = Crc32::of(&text.0[start..]);
    write!(text, r#","crc32":"{checksum}"}}"#)
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

/// Refuses a position with other stages.
fn compare(saved: &[Signature], expected: &[Signature]) -> Result<()> {
    let count = saved.len().max(expected.len());
    let difference = (0..count).find(|&stage| saved.get(stage) != expected.get(stage));
    let Some(stage) = difference else {
        return Ok(());
    };
    let name = |stage: Option<&Signature>| match stage {
        Some(stage) => format!("'{}'", shortened(&stage.to_string())),
        None => "nothing".into(),
    };
    Err(wrong(format!(
        "is of another pipeline: counted from the end of the pipeline, from 0 on, its stage \
         {stage} is {}, that of the iterator is {}; restore it into an iterator of the pipeline \
         that it was saved of",
        name(saved.get(stage)),
        name(expected.get(stage))
    )))
}

fn wrong(problem: String) -> Error {
    Error::invalid("position", problem)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    use super::*;

    fn pipeline(kinds: &[&str]) -> Description {
        let mut description = Description::default();
        for kind in kinds {
            description.stage(Signature::new(kind));
        }
        description
    }

    fn batches(size: u64) -> Description {
        let mut description = Description::default();
        description.stage(Signature::new("batch").with("size", size));
        description.stage(Signature::new("range").with("count", 5));
        description
    }

    fn write(pipeline: &Description, numbers: &[u64]) -> Result<String> {
        SavedPosition::new(pipeline, numbers)?.to_text()
    }

    fn read(text: &str, pipeline: &Description) -> Result<Vec<u64>> {
        let position = SavedPosition::from_text(text)?;
        position.numbers_for(pipeline).map(<[u64]>::to_vec)
    }

    /// A text with the checksum that it should have.
    fn sealed_text(position: &Json) -> String {
        let mut text = Text(Vec::new());
        sealed(&mut text, position).unwrap();
        String::from_utf8(text.0).unwrap()
    }

    /// Why it is refused, as a text and as JSON.
    fn refusal(position: &Json) -> String {
        let refused = read(&sealed_text(position), &batches(3)).unwrap_err();
        let json = SavedPosition::from_json(position)
            .and_then(|position| position.numbers_for(&batches(3)).map(drop));
        let refused = refused.to_string();
        // In a text, the message also has the line and the column.
        assert!(
            refused.starts_with(&json.unwrap_err().to_string()),
            "{refused}"
        );
        refused
    }

    #[test]
    fn the_first_difference_is_named() {
        let saved = write(&batches(3), &[1, 2]).unwrap();
        let refused =
            |description: &Description| read(&saved, description).unwrap_err().to_string();
        for (description, difference) in [
            (
                batches(4),
                "stage 0 is 'batch(size: 3)', that of the iterator is 'batch(size: 4)'",
            ),
            (
                pipeline(&["shuffle"]),
                "stage 0 is 'batch(size: 3)', that of the iterator is 'shuffle'",
            ),
        ] {
            let message = refused(&description);
            assert!(message.contains(difference), "{message}");
        }
        let mut longer = batches(3);
        longer.stage(Signature::new("x"));
        let message = refused(&longer);
        assert!(message.contains("stage 2 is nothing, that of the iterator is 'x'"));
        let saved = write(&longer, &[]).unwrap();
        let message = read(&saved, &batches(3)).unwrap_err().to_string();
        assert!(message.contains("stage 2 is 'x', that of the iterator is nothing"));
    }

    #[test]
    fn other_texts_are_refused() {
        let description = batches(3);
        let saved = write(&description, &[1, u64::MAX]).unwrap();
        assert_eq!(read(&saved, &description).unwrap(), [1, u64::MAX]);
        let deep = "[".repeat(100_000);
        let deep_position = format!("{{\"iterator_position\":{deep}");
        for text in [
            "",
            "{}",
            "null",
            "7",
            "[]",
            &deep,
            &deep_position,
            &saved[..saved.len() - 1],
            &saved.replace("crc32", "crc"),
            &saved.replace("\"crc32\"", "\"more\":1,\"crc32\""),
        ] {
            let refused = read(text, &description).unwrap_err().to_string();
            assert!(refused.contains("not a saved position"), "{refused}");
        }
        for (from, to) in [
            ("\"format\":1", "\"format\":2"),
            ("[1,", "[2,"),
            ("\"range\"", "\"ranges\""),
            ("\"size\":3", "\"size\":4"),
            ("[1,", "[ 1,"),
        ] {
            assert!(saved.contains(from), "{saved}");
            let refused = read(&saved.replace(from, to), &description).unwrap_err();
            assert!(refused.to_string().contains("damaged"), "{refused}");
        }
    }

    #[test]
    fn contents_that_do_not_fit_are_refused_whatever_their_checksum() {
        let stages = json!([{"kind": "batch", "size": 3}, {"kind": "range", "count": 5}]);
        let position = |numbers: Json| json!({"format": 1, "pipeline": stages, "numbers": numbers});
        for numbers in [
            json!([-1]),
            json!([1.5]),
            json!([[1]]),
            json!("1"),
            Json::Null,
        ] {
            let refused = refusal(&position(numbers.clone()));
            assert!(refused.contains("not a saved position"), "{refused}");
        }
        for wrong in [
            json!([]),
            json!({}),
            json!({"format": "1"}),
            json!({"format": -1}),
        ] {
            let refused = refusal(&wrong);
            assert!(refused.contains("not a saved position"), "{refused}");
        }
        for stages in [json!("batch"), json!(["batch"]), json!([{"size": 3}])] {
            let refused = refusal(&json!({"format": 1, "pipeline": stages, "numbers": []}));
            assert!(refused.contains("not a saved position"), "{refused}");
        }
    }

    /// The rules for what later libraries write.
    #[test]
    fn later_versions_are_refused_and_later_fields_are_ignored() {
        let refused = refusal(&json!({"format": 2, "stages": "in another way"}));
        assert!(refused.contains("version 2 of the format; this library reads version 1"));
        let mut stages = json!([{"kind": "batch", "size": 3}, {"kind": "range", "count": 5}]);
        let later = json!({
            "format": 1, "pipeline": stages, "numbers": [7], "later": {"deep": [[]]}
        });
        assert_eq!(read(&sealed_text(&later), &batches(3)).unwrap(), [7]);
        let read = SavedPosition::from_json(&later).unwrap();
        assert_eq!(read.numbers_for(&batches(3)).unwrap(), [7]);
        // A parameter of an operation tells what numbers mean, so it must be known.
        stages[0]["later"] = json!(true);
        let refused = refusal(&json!({"format": 1, "pipeline": stages, "numbers": [7]}));
        assert!(
            refused.contains("stage 0 is 'batch(later: true, size: 3)'"),
            "{refused}"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_refused(text in ".{0,200}") {
            prop_assert!(read(&text, &pipeline(&["a"])).is_err());
        }

        #[test]
        fn numbers_and_signatures_come_back(
            stages in proptest::collection::vec(".{0,40}", 0..6),
            numbers in proptest::collection::vec(any::<u64>(), 0..40),
        ) {
            let stages: Vec<&str> = stages.iter().map(String::as_str).collect();
            let description = pipeline(&stages);
            let saved = write(&description, &numbers).unwrap();
            prop_assert_eq!(read(&saved, &description).unwrap(), numbers);
        }

        /// A damaged text is refused, unless its meaning is unchanged, as with other spaces or
        /// escapes.
        #[test]
        fn damage_is_noticed(place in 0usize..10_000, with in any::<u8>()) {
            let description = batches(3);
            let mut bytes = write(&description, &[3, 1, 4, 1, 5]).unwrap().into_bytes();
            let place = place % bytes.len();
            bytes[place] = with;
            if let Ok(text) = String::from_utf8(bytes)
                && let Ok(numbers) = read(&text, &description)
            {
                prop_assert_eq!(numbers, [3, 1, 4, 1, 5]);
            }
        }
    }
}
