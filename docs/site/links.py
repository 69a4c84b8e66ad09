#!/usr/bin/env python3
"""Doxygen's filter for documents: pages have names, and links to documents name pages.

Doxygen looks for a link's file from the folder that it was started in, so `../docs/loop.md` of a document in
`c_examples` would lead to a folder beside the project, if there is one of that name; and a folder with a space in its
name leads nowhere.
"""
import os
import pathlib
import re
import sys

document = pathlib.Path(sys.argv[1]).resolve()
project = pathlib.Path(__file__).resolve().parents[2]


def page(path):
    is_first = path == project / "README.md"
    return "index" if is_first else "page_" + re.sub(r"\W", "_", str(path.relative_to(project).with_suffix("")))


def named(link):
    target = pathlib.Path(os.path.normpath(document.parent / link[1]))
    return f"](@ref {page(target)})" if target.is_file() and target.is_relative_to(project) else link[0]


text = re.sub(r"\]\(([\w./-]+\.md)\)", named, document.read_text(encoding="utf-8"))
if page(document) != "index":
    text = re.sub(r"\A# (.*)$", rf"# \1 {{#{page(document)}}}", text, count=1, flags=re.MULTILINE)
sys.stdout.write(text)
