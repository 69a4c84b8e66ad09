//! Updates in host memory whose new weights go to devices: they are cut into chunks, and while the
//! workers update one chunk, the weights of the one before are on their way.

use std::ops::Range;

use crate::apply::sources::GradientSources;
use crate::apply::workspace::UpdateGroup;
use crate::exchange::buffers::BLOCK;
use umbo_executor::pieces::Pieces;
use umbo_tensor::values::variable::Variable;

/// How many bytes of weights that are sent a chunk has: enough for the full rate of the bus, and
/// few beside those of a model, since the last chunk goes up when there is nothing left to update.
const CHUNK: usize = 2 << 20;

/// Elements, or rows, of one item that are updated together.
struct ChunkPart<'a> {
    item: usize,
    elements: Range<usize>,
    /// The variable whose weights are sent then, and the buffer that has them.
    sent: Option<(&'a Variable, usize)>,
}

/// Updates pieces, of which the function given says which items they are of.
type Update<'a> = dyn Fn(&mut Pieces, &(dyn Fn(usize) -> usize + Sync)) + 'a;

/// Whether the update of an item that has begun sends new weights to devices.
pub(super) fn sends(items: &[UpdateGroup], sources: &GradientSources<'_>) -> bool {
    items.iter().any(|item| sent(item, sources).is_some())
}

/// The variable of an item whose weights are sent while it is updated. Those of tables, and of
/// variables of which other ranks update parts, are sent when all of them are there.
fn sent<'a>(item: &UpdateGroup, sources: &GradientSources<'a>) -> Option<(&'a Variable, usize)> {
    let update = item.update.as_ref()?;
    if item.count > 1 || item.divided || sources.rows(item.index).is_some() {
        return None;
    }
    let variable = &sources.variables()[item.index];
    variable
        .sends(update.buffer)
        .then_some((variable, update.buffer))
}

/// Calls `update` with one chunk of all items after the other, and sends the weights of each.
pub(super) fn in_chunks(
    items: &[UpdateGroup],
    sources: &GradientSources<'_>,
    pieces: &mut Pieces,
    update: &Update<'_>,
) {
    let mut chunk = Chunk {
        parts: Vec::new(),
        room: CHUNK,
        pieces,
        update,
    };
    chunk.pieces.clear();
    for (item, group) in items.iter().enumerate() {
        if group.update.is_none() {
            continue;
        }
        let index = group.index;
        let variable = &sources.variables()[index];
        let Some(sent) = sent(group, sources) else {
            let (elements, block, bytes) = match sources.rows(index) {
                Some(rows) => (rows.rows().len(), 1, group.cost * rows.row_elements()),
                None => (group.own(variable).len(), BLOCK, group.cost),
            };
            chunk.pieces.push(elements, block, bytes);
            chunk.parts.push(ChunkPart {
                item,
                elements: 0..elements,
                sent: None,
            });
            continue;
        };
        chunk.add_in_parts(item, group, sent);
    }
    chunk.finish();
}

/// The chunk that is being put together.
struct Chunk<'a, 'u> {
    parts: Vec<ChunkPart<'a>>,
    /// How many bytes of sent weights it still takes.
    room: usize,
    pieces: &'u mut Pieces,
    update: &'u Update<'u>,
}

impl<'a> Chunk<'a, '_> {
    /// Adds the elements of an item whose weights are sent, and finishes each chunk that is full.
    fn add_in_parts(&mut self, item: usize, group: &UpdateGroup, sent: (&'a Variable, usize)) {
        let (variable, _) = sent;
        let size = variable.dtype().size();
        let all = variable.shape().elements();
        let mut start = 0;
        while start < all {
            let most = self.room / size / BLOCK * BLOCK;
            if most == 0 {
                self.finish();
                continue;
            }
            let part = start..all.min(start + most);
            start = part.end;
            self.room -= part.len() * size;
            self.pieces.push_part(part.clone(), BLOCK, group.cost);
            self.parts.push(ChunkPart {
                item,
                elements: part,
                sent: Some(sent),
            });
        }
    }

    /// Updates the chunk, sends its weights, and begins the next one.
    fn finish(&mut self) {
        let parts = &self.parts;
        (self.update)(self.pieces, &|at| parts[at].item);
        for part in self.parts.drain(..) {
            if let Some((variable, buffer)) = part.sent {
                variable.send(buffer, part.elements.end);
            }
        }
        self.pieces.clear();
        self.room = CHUNK;
    }
}
