"""The wheel that scripts/wheel.py makes is installed by pip into a fresh venv, without a network, and used from there.

    wheel.py SOURCES PREFIX CMAKE C_COMPILER FOLDER

A CMake project finds the library there and runs; so do compilers with -L and -l; and a training in Python, where a Python
has what the binding needs.
"""
import base64
import csv
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

sources, prefix, cmake, compiler, folder = sys.argv[1:]
sources, folder = pathlib.Path(sources), pathlib.Path(folder)
# Nothing of this tree, and nothing of the caller's, helps.
environment = {name: value for name, value in os.environ.items()
               if not name.startswith(("PYTHON", "PIP_", "LIBUMBO", "LD_LIBRARY", "CMAKE_PREFIX"))}


def output(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env={**environment, **more})
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout.strip()


def made(name):
    output(sys.executable, sources / "scripts/wheel.py", prefix, folder / name)
    return next((folder / name).glob("*.whl"))


def check_record(wheel):
    """All files but the record have their sum and size in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(archive.read(record).decode().splitlines()))
        assert sorted(row[0] for row in rows) == sorted(names), "the record does not have each file once"
        for name, digest, size in rows:
            data = archive.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert name == record or (digest, int(size)) == ("sha256=" + expected, len(data)), name


if subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True).returncode:
    sys.exit(subprocess.run([sources / "scripts/skip.sh", "package.wheel", "this Python has no ensurepip"]).returncode)
shutil.rmtree(folder, ignore_errors=True)
wheel = made("first")
assert made("second").read_bytes() == wheel.read_bytes(), "two wheels of one prefix differ"
check_record(wheel)
print(wheel.name)

# A folder with a space in its name, as some have.
venv = folder / "a venv"
output(sys.executable, "-m", "venv", venv)
python = venv / "bin/python"
output(python, "-m", "pip", "install", "--no-index", "--no-cache-dir", "--disable-pip-version-check", wheel)
output(python, "-m", "pip", "check", "--disable-pip-version-check")


def place(option):
    return pathlib.Path(output(python, "-m", "umbo", option))


assert venv in place("--library").parents and place("--library").is_file()
assert (place("--include-dir") / "umbo/umbo.h").is_file()
assert len(output(python, "-m", "umbo", "--cmake-dir", "--include-dir").splitlines()) == 2
assert subprocess.run([str(python), "-m", "umbo"], capture_output=True, env=environment).returncode == 2

project = folder / "project"
project.mkdir()
shutil.copy(sources / "c_examples/01_hello.c", project / "hello.c")
(project / "CMakeLists.txt").write_text("""\
cmake_minimum_required(VERSION 3.19)
project(hello LANGUAGES C)
execute_process(COMMAND "${PYTHON}" -m umbo --cmake-dir OUTPUT_VARIABLE umbo_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
find_package(umbo 0.1 REQUIRED CONFIG)
add_executable(hello hello.c)
target_link_libraries(hello PRIVATE umbo::umbo)
""")
output(cmake, "-S", project, "-B", project / "build", f"-DPYTHON={python}", f"-DCMAKE_C_COMPILER={compiler}")
output(cmake, "--build", project / "build")
by_cmake = output(project / "build/hello")
assert f"{venv}/" in (project / "build/CMakeCache.txt").read_text(), "CMake did not find the library in the venv"

output(compiler, project / "hello.c", "-o", project / "hello", "-I", place("--include-dir"), "-L", place("--library-dir"), "-lumbo")
assert output(project / "hello", LD_LIBRARY_PATH=str(place("--library-dir"))) == by_cmake

site = place("--library-dir").parent
trained = subprocess.run([sys.executable, str(sources / "tests/python/interpreter.py"), "python.train", "cffi", "numpy>=2.1", "--",
                          str(sources / "tests/python/train.py"), str(site), str(site / "include"), str(place("--library-dir"))],
                         env=environment, capture_output=True, text=True)
assert trained.returncode in (0, 77), trained.stdout + trained.stderr
print(by_cmake, trained.stdout, sep="\n")

output(python, "-m", "pip", "uninstall", "--yes", "--disable-pip-version-check", "umbo")
left = [path for path in site.rglob("*") if path.is_file()] if site.exists() else []
assert not left, f"pip leaves {left}"
