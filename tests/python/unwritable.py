"""Each script, and each target of the Makefile, that writes what it has measured into a document says at once that it
cannot, before it installs anything: unwritable.py SOURCES"""

import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(sys.argv[1])
# No file can be made there, not even by root.
NOWHERE = "/proc/nowhere"


def refuses(command, environment=(), code=1):
    begun = time.monotonic()
    # A make around the test gives its options to one that the test starts.
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    ended = subprocess.run(command, capture_output=True, text=True, env=own | dict(environment))
    said = ended.stdout + ended.stderr
    assert ended.returncode == code, f"{command}: {ended.returncode}: {said}"
    assert "cannot be written" in said or "cannot create directory" in said, f"{command}: {said}"
    assert time.monotonic() - begun < 30, f"{command} took {time.monotonic() - begun:.0f} s"


for script in ("benches/peers/run.py", "benches/peers/loops.py", "benches/engines/run.py", "benches/adoption/run.py"):
    refuses([sys.executable, ROOT / script, "--prefix", NOWHERE, "--output", f"{NOWHERE}/document.md"])
refuses([sys.executable, ROOT / "tests/judges/run.py"], {"JUDGES_DOCUMENTS": NOWHERE})
refuses([ROOT / "scripts/pictures.sh", ROOT, "work", f"{NOWHERE}/pictures"])
for target in ("bench-peers", "bench-loops", "bench-engines", "adoption", "judges", "pictures"):
    # Without the tools of the set-up, which would install more of them.
    refuses(["make", "-C", ROOT, target, f"DOCUMENTS={NOWHERE}"], {"UMBO_SETUP": "no"}, code=2)
