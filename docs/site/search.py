#!/usr/bin/env python3
"""Lets the search of doxygen's pages find headings, too, by each of their words: search.py HTML_FOLDER

Doxygen's own search knows names of the API and titles of pages. What is added has the form of its files."""
import html
import json
import pathlib
import re
import sys

HEADING = re.compile(r'<h[1-3]><a class="anchor" id="(\w+)"></a>\n(.*?)</h[1-3]>', re.DOTALL)
TITLE = re.compile(r'<div class="title">(.*?)</div>', re.DOTALL)


def plain(text):
    return html.unescape(re.sub(r"<[^>]*>", "", text)).strip()


def identifier(text):
    """As convertToId() of search.js."""
    return "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):02x}" for c in text.lower())


def headings(folder):
    for page in sorted(folder.glob("*.html")):
        text = page.read_text()
        title = TITLE.search(text)
        for anchor, heading in HEADING.findall(text) if title and page.name.startswith(("page_", "index")) else ():
            yield f"../{page.name}#{anchor}", plain(heading), plain(title.group(1))


def main(folder):
    search = folder / "search"
    letters = re.search(r'0: "([^"]*)"', (search / "searchdata.js").read_text()).group(1)
    added = {}
    for address, heading, title in headings(folder):
        for word in re.finditer(r"\w[\w-]{2,}", heading):
            at = letters.find(word.group()[0].lower())
            if at >= 0:
                words = identifier(heading[word.start():])
                added.setdefault(at, []).append([words, [html.escape(heading), [address, 1, html.escape(title)]]])
    for at, entries in added.items():
        file = search / f"all_{at:x}.js"
        start, end = file.read_text().rsplit("\n];", 1)
        # Each has an id of its own.
        rows = [[f"{words}_heading{number}", found] for number, (words, found) in enumerate(entries)]
        file.write_text(start + "".join(",\n  " + json.dumps(row) for row in rows) + "\n];" + end)
    print(f"{sum(map(len, added.values()))} words of headings can be searched for")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
