#!/usr/bin/env python3
"""Doxygen's filter for documents: pages and headings have names, and links between documents lead to these names.

Doxygen looks for a link's file from the folder that it was started in, and for a heading by a name alone. A link to a header leads
to its page of the reference; one to a file that the site does not have becomes its text. Pages for those who work on Umbo are
pages below CONTRIBUTING.md.
"""
import os
import pathlib
import re
import sys

document = pathlib.Path(sys.argv[1]).resolve()
project = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([\w./-]*)(?:#([\w-]+))?\)")
HEADING = re.compile(r"(#+) (.*)")


def page(path):
    is_first = path == project / "README.md"
    return "index" if is_first else "page_" + re.sub(r"\W", "_", str(path.relative_to(project).with_suffix("")))


def anchor(heading):
    """The name of a heading in links to it, as on the pages of a forge."""
    return re.sub(r"[^\w -]", "", heading.strip().lower()).replace(" ", "-")


def named(path, heading):
    return f"{page(path)}_{re.sub(r'[^A-Za-z0-9_]', '_', heading)}"


def linked(link):
    picture, text, file, heading = link.groups()
    # Doxygen takes a link to a name as one line of plain text.
    plain = " ".join(text.replace("`", "").split())
    if picture:
        return f"![{text}]({pathlib.PurePath(file).name})" if file else link[0]
    if not file and not heading:
        return link[0]
    target = pathlib.Path(os.path.normpath(document.parent / file)) if file else document
    if not target.exists() or not target.is_relative_to(project):
        return link[0]
    if target.suffix == ".md":
        return f"[{plain}](@ref {named(target, heading) if heading else page(target)})"
    if target.is_relative_to(project / "include") and target.suffix in (".h", ".hpp"):
        return f"[{plain}](@ref {target.relative_to(project / 'include')})"
    return text


# Every second piece is a block of code.
pieces = re.split(r"(^```.*?^```$)", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
seen = set()
for number in range(0, len(pieces), 2):
    lines = LINK.sub(linked, pieces[number]).split("\n")
    for at, line in enumerate(lines):
        if not (heading := HEADING.fullmatch(line)):
            continue
        is_title = len(heading[1]) == 1
        # Doxygen shows the marks of code in a heading as they are.
        lines[at] = line.replace("`", "")
        name = page(document) if is_title else named(document, anchor(heading[2]))
        if name not in seen and name != "index":
            lines[at] += f" {{#{name}}}"
        seen.add(name)
    pieces[number] = "\n".join(lines)
sys.stdout.write("".join(pieces))
if document == project / "CONTRIBUTING.md":
    # In the menu, pages for those who work on Umbo stand below this one.
    inner = [*sorted((project / "docs" / "internals").glob("*.md")), project / "tests" / "README.md"]
    sys.stdout.write("\n## Pages for contributors\n\n" + "".join(f"- @subpage {page(path)}\n" for path in inner))
