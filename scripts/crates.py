#!/usr/bin/env python3
"""Draws docs/pictures/architecture.svg: the crates of the library and what each uses, from their manifests.

    scripts/crates.py [FILE]

An arrow is drawn only where no path of other arrows says it already; tests/documents compares.
"""
import json
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 190, 62, 24, 34, 20


def crates():
    """The crates of the library by name: what each is, and which it uses."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)["packages"]
    folders = {package["name"]: pathlib.Path(package["manifest_path"]).parent for package in packages}
    mine = {name for name, folder in folders.items() if folder == ROOT or folder.parent == ROOT / "crates"}
    about = {package["name"]: package["description"] for package in packages}
    uses = {package["name"]: {dependency["name"] for dependency in package["dependencies"]
                              if dependency["name"] in mine and dependency["kind"] is None} for package in packages}
    return {name: (about[name], uses[name]) for name in mine}


def reached(uses, name):
    found = set()
    for below in uses[name]:
        found |= {below} | reached(uses, below)
    return found


def main():
    found = crates()
    uses = {name: below for name, (_, below) in found.items()}
    arrows = {name: sorted(to for to in below if not any(to in reached(uses, other) for other in below))
              for name, below in uses.items()}
    depth = {}

    def place(name):
        if name not in depth:
            depth[name] = 1 + max((place(above) for above in uses if name in uses[above]), default=-1)
        return depth[name]

    rows = {}
    for name in sorted(found):
        rows.setdefault(place(name), []).append(name)
    widest = max(map(len, rows.values()))
    total = widest * (WIDTH + ACROSS) - ACROSS + 2 * MARGIN
    at = {}
    for row, names in rows.items():
        left = (total - len(names) * (WIDTH + ACROSS) + ACROSS) / 2
        for column, name in enumerate(names):
            at[name] = (left + column * (WIDTH + ACROSS), MARGIN + row * (HEIGHT + DOWN))
    tall = MARGIN * 2 + len(rows) * (HEIGHT + DOWN) - DOWN
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{tall}" viewBox="0 0 {total} {tall}" '
             'font-family="sans-serif">', "  <!-- Drawn by scripts/crates.py; do not edit. -->",
             "  <title>The crates of Umbo, and what each uses</title>",
             f'  <rect width="{total}" height="{tall}" fill="white"/>',
             '  <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">',
             '    <path d="M0 0 L8 4 L0 8 Z" fill="#5a5a5a"/></marker></defs>',
             '  <g stroke="#5a5a5a" stroke-width="1.2" fill="none" marker-end="url(#head)">']
    for name in sorted(arrows):
        for to in arrows[name]:
            (x, y), (x2, y2) = at[name], at[to]
            start, end = x + WIDTH / 2, x2 + WIDTH / 2
            lines.append(f'    <path data-from="{name}" data-to="{to}" d="M{start:.0f} {y + HEIGHT:.0f} L{end:.0f} {y2:.0f}"/>')
    lines.append("  </g>")
    for name in sorted(found):
        (x, y), about = at[name], found[name][0].removeprefix("Umbo: ").split(":")[0]
        lines.append(f'  <rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#dbe7f6" stroke="#5a5a5a"/>')
        lines.append(f'  <text x="{x + WIDTH / 2:.0f}" y="{y + 19:.0f}" font-size="14" font-weight="bold" text-anchor="middle">{name}</text>')
        for line, text in enumerate(textwrap.wrap(about, 30)):
            lines.append(f'  <text x="{x + WIDTH / 2:.0f}" y="{y + 36 + 14 * line:.0f}" font-size="11" text-anchor="middle" '
                         f'fill="#333333">{text}</text>')
    text = "\n".join(lines + ["</svg>", ""])
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/pictures/architecture.svg"
    target.write_text(text)


if __name__ == "__main__":
    main()
