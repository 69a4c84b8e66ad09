"""Each script that writes what it has measured into a document says at once that it cannot: unwritable.py SOURCES"""

import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(sys.argv[1])
# No file can be made there, not even by root.
NOWHERE = "/proc/nowhere"


def refuses(command, environment=()):
    begun = time.monotonic()
    ended = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ) | dict(environment))
    said = ended.stdout + ended.stderr
    assert ended.returncode == 1, f"{command}: {ended.returncode}: {said}"
    assert "cannot be written" in said or "cannot create directory" in said, f"{command}: {said}"
    assert time.monotonic() - begun < 30, f"{command} took {time.monotonic() - begun:.0f} s"


for script in ("benches/peers/run.py", "benches/peers/loops.py", "benches/engines/run.py"):
    refuses([sys.executable, ROOT / script, "--prefix", NOWHERE, "--output", f"{NOWHERE}/document.md"])
refuses([sys.executable, ROOT / "tests/judges/run.py"], {"JUDGES_DOCUMENTS": NOWHERE})
