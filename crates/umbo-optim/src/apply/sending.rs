//! Updates in host memory whose new weights go to devices: they are cut into chunks, and while the
//! workers update one chunk, the weights of the one before are on their way.

use crate::apply::host::push_piece;
use crate::apply::sources::GradientSources;
use crate::apply::workspace::UpdateGroup;
use umbo_executor::pieces::Pieces;
use umbo_kernels::update::eight_bit::STATE_BLOCK;
use umbo_tensor::values::variable::Variable;

/// How many bytes of weights that are sent a chunk has: enough for the full rate of the bus, and
/// few beside those of a model, since the last chunk goes up when there is nothing left to update.
const CHUNK: usize = 2 << 20;

/// The piece of an item that a chunk has.
struct ChunkPart<'a> {
    item: usize,
    sent: Option<SentWeights<'a>>,
}

/// The weights that are sent after an update of them.
struct SentWeights<'a> {
    variable: &'a Variable,
    /// The buffer that has them.
    buffer: usize,
    /// The end of the elements that have been updated by then.
    end: usize,
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
        let Some(sent) = sent(group, sources) else {
            push_piece(chunk.pieces, sources, group);
            chunk.parts.push(ChunkPart { item, sent: None });
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
        let (variable, buffer) = sent;
        let size = variable.dtype().size();
        let all = variable.shape().elements();
        let mut start = 0;
        while start < all {
            let most = self.room / size / STATE_BLOCK * STATE_BLOCK;
            if most == 0 {
                self.finish();
                continue;
            }
            let part = start..all.min(start + most);
            start = part.end;
            self.room -= part.len() * size;
            self.parts.push(ChunkPart {
                item,
                sent: Some(SentWeights {
                    variable,
                    buffer,
                    end: part.end,
                }),
            });
            self.pieces.push_part(part, STATE_BLOCK, group.cost);
        }
    }

    /// Updates the chunk, sends its weights, and begins the next one.
    fn finish(&mut self) {
        let parts = &self.parts;
        (self.update)(self.pieces, &|at| parts[at].item);
        for sent in self.parts.drain(..).filter_map(|part| part.sent) {
            sent.variable.send(sent.buffer, sent.end);
        }
        self.pieces.clear();
        self.room = CHUNK;
    }
}
