#!/usr/bin/env python3
"""Draws what a step is: step.py OUTPUT.svg [REPLICAS [ROWS]], of two replicas and a batch of seven rows by default."""
import pathlib
import sys

WIDTH, TOP, LANE, GAP = 960, 74, 62, 16
# Where each phase begins, how wide it is, its name, and what it does.
PHASES = [
    (16, 116, "split", "the batch, by rows"),
    (172, 236, "callback", "yours, on all replicas at once"),
    (448, 148, "reduce", "in replica order"),
    (636, 148, "update", "once"),
    (824, 120, "commit", "all of it, or nothing"),
]
YOURS, LIBRARY, KEPT = "#dbeafe", "#eef0f4", "#fde9d9"


def box(x, y, width, height, lines, colour):
    middle = y + height / 2 - 8 * (len(lines) - 1)
    texts = "".join(f'<text x="{x + width / 2}" y="{middle + 16 * i}" dy="0.35em" text-anchor="middle">{line}</text>'
                    for i, line in enumerate(lines))
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{colour}" stroke="#8a94a6"/>{texts}\n'


def arrow(*points):
    path = " L".join(f"{x} {y}" for x, y in points)
    return f'<path d="M{path}" fill="none" stroke="#44546a" stroke-width="1.5" marker-end="url(#head)"/>\n'


def parts(rows, replicas):
    """The rows of each replica, as a batch is split: parts of equal size, rounded up."""
    size = -(-rows // replicas)
    return [range(min(k * size, rows), min((k + 1) * size, rows)) for k in range(replicas)]


def draw(replicas=2, rows=7):
    height = replicas * LANE + (replicas - 1) * GAP
    bottom = TOP + height
    out = ""
    for x, width, name, what in PHASES:
        out += f'<text x="{x + width / 2}" y="24" text-anchor="middle" font-weight="bold">{name}</text>'
        out += f'<text x="{x + width / 2}" y="44" text-anchor="middle" fill="#5b6676" font-size="12">{what}</text>\n'
    (split, split_width), (step, step_width), (sums, sums_width), (update, update_width), (commit, commit_width) = (
        phase[:2] for phase in PHASES)
    middle = TOP + height / 2
    out += box(split, TOP, split_width, height, [f"{rows} rows"], LIBRARY)
    for replica, part in enumerate(parts(rows, replicas)):
        y = TOP + replica * (LANE + GAP)
        said = f"rows {part[0]} to {part[-1]}" if len(part) > 1 else f"row {part[0]}" if part else "no rows"
        out += box(step, y, step_width, LANE, [f"replica {replica}: your step, {said}", "writes its own gradients"], YOURS)
        out += arrow((split + split_width, y + LANE / 2), (step - 3, y + LANE / 2))
        out += arrow((step + step_width, y + LANE / 2), (sums - 3, y + LANE / 2))
    out += box(sums, TOP, sums_width, height, ["sum of all gradients,", f"over {rows} examples"], LIBRARY)
    out += box(update, TOP, update_width, height, ["optimizer:", "clip, state,", "new weights"], LIBRARY)
    out += box(commit, TOP, commit_width, height, ["if every replica", "returned OK"], LIBRARY)
    out += arrow((sums + sums_width, middle), (update - 3, middle))
    out += arrow((update + update_width, middle), (commit - 3, middle))
    kept = bottom + 44
    out += box(step, kept, commit + commit_width - step, 40, ["weights and the optimizer's state: one copy"], KEPT)
    out += arrow((step + 60, kept), (step + 60, bottom + 3))
    out += f'<text x="{step + 68}" y="{bottom + 27}" font-size="12">read, in place</text>\n'
    out += arrow((commit + commit_width / 2, bottom), (commit + commit_width / 2, kept - 3))
    out += f'<text x="{commit + commit_width / 2 - 8}" y="{bottom + 27}" text-anchor="end" font-size="12">written</text>\n'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{kept + 56}" viewBox="0 0 {WIDTH} {kept + 56}" '
            'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>\n'
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#44546a"/></marker></defs>\n' + out + "</svg>\n")


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(draw(*map(int, sys.argv[2:])))
