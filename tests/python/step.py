"""The drawing of a step: step.py SCRIPT PICTURE"""
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree


def drawn(*words):
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "step.svg")
        subprocess.run([sys.executable, sys.argv[1], str(output), *words], check=True)
        return output.read_text()


# The picture of the documents is what the script draws.
assert drawn() == pathlib.Path(sys.argv[2]).read_text(), "draw docs/pictures/anatomy.svg anew, with docs/step.py"
# Parts are those of umbo_strategy_split(): equal sizes, rounded up, and none for the rest.
for words, said in [(["4", "9"], ["rows 0 to 2", "rows 3 to 5", "rows 6 to 8", "no rows"]), (["2", "1"], ["row 0", "no rows"])]:
    texts = [text.text for text in xml.etree.ElementTree.fromstring(drawn(*words)).iter("{http://www.w3.org/2000/svg}text")]
    parts = [text.split(", ")[1] for text in texts if ": your step, " in text]
    assert parts == said, parts
