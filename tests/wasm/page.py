#!/usr/bin/env python3
"""Makes one page of page.html, wasi.js and a program, which can be opened as a file, and tries it in a browser.

    tests/wasm/page.py PROGRAM PAGE              makes PAGE
    tests/wasm/page.py --try BROWSER PAGE FOLDER prints what the program printed there; FOLDER gets the pictures that it drew
"""

import base64
import http.server
import json
import pathlib
import shutil
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = 300


def make(program, page):
    text = (HERE / "page.html").read_text()
    packed = base64.b64encode(pathlib.Path(program).read_bytes()).decode()
    for place, content in (
        ('<script id="program" type="application/base64">', packed),
        ('<script id="worker" type="text/plain">', "\n" + (HERE / "wasi.js").read_text()),
    ):
        if text.count(place) != 1 or "</script" in content:
            sys.exit(f"page.html has no place, or a wrong one, for {place}")
        text = text.replace(place, place + content)
    pathlib.Path(page).write_text(text)


class Server(http.server.ThreadingHTTPServer):
    """Gives the page, and takes its report."""

    def __init__(self, page):
        super().__init__(("127.0.0.1", 0), Handler)
        self.page = page
        self.report = None
        self.has_report = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_page = self.path == "/"
        body = self.server.page if is_page else b""
        self.send_response(200 if is_page else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.server.report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.has_report.set()

    def log_message(self, *_):
        pass


def try_in(browser, page, folder):
    """The report of the page in a headless browser."""
    profile = folder / "profile"
    shutil.rmtree(folder, ignore_errors=True)
    profile.mkdir(parents=True)
    server = Server(pathlib.Path(page).read_bytes())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/#report"
    with open(folder / "browser.txt", "w") as said:
        running = subprocess.Popen(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}", address],
            stdout=said, stderr=said)
    try:
        if not server.has_report.wait(LONGEST):
            sys.exit(f"the page has not ended in {LONGEST} s; the browser's words are in {folder / 'browser.txt'}")
    finally:
        running.terminate()
        running.wait()
        server.shutdown()
        shutil.rmtree(profile, ignore_errors=True)
    return server.report


def has_colours(data_url, path):
    """Keeps a picture. One that is empty packs to next to nothing."""
    path.write_bytes(base64.b64decode(data_url.split(",", 1)[1]))
    return path.stat().st_size > 3000


def main():
    given = sys.argv[1:]
    if len(given) == 2:
        make(*given)
        return
    if len(given) != 4 or given[0] != "--try":
        sys.exit(__doc__)
    folder = pathlib.Path(given[3])
    report = try_in(given[1], given[2], folder)
    if report["status"] != 0:
        sys.exit(report["state"])
    for name in "curve", "pictures":
        if not has_colours(report[name], folder / f"{name}.png"):
            sys.exit(f"{folder / name}.png is empty")
    print(*report["printed"], sep="\n")


main()
