#!/usr/bin/env python3
"""Doxygen's filter for documents: links to documents, from the project's folder.

Doxygen looks for a link's file from the folder that it was started in, so `../docs/loop.md` of a document in
`c_examples` would lead to a folder beside the project, if there is one of that name.
"""
import os
import pathlib
import re
import sys

document = pathlib.Path(sys.argv[1]).resolve()
project = pathlib.Path(__file__).resolve().parents[2]


def from_project(link):
    target = pathlib.Path(os.path.normpath(document.parent / link[1]))
    return f"]({target.relative_to(project)}" if target.is_file() and target.is_relative_to(project) else link[0]


sys.stdout.write(re.sub(r"\]\(([\w./-]+\.md)", from_project, document.read_text(encoding="utf-8")))
