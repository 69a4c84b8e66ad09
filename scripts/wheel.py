#!/usr/bin/env python3
"""Makes a wheel of an installed library, for pip: umbo-VERSION-py3-none-PLATFORM.whl.

    scripts/wheel.py PREFIX FOLDER

The wheel has the shared library, headers, CMake files, umbo.pc, docs/python/binding.py, licences and the bill of materials.
Its platform is computed from the versions of the symbols that the library needs of glibc. Python's standard library is all that
this takes, and no network. The same prefix gives the same bytes; $SOURCE_DATE_EPOCH is the time of all files, else 1980.
"""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# What every Linux has that wheels are for (PEP 600), of what Rust's runtime may need.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "ld-linux-x86-64.so.2",
          "ld-linux-aarch64.so.1"}
METADATA = """\
Metadata-Version: 2.4
Name: umbo
Version: {version}
Summary: {summary}
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-MIT
License-File: LICENSE-APACHE
License-File: THIRD-PARTY-LICENSES.txt
Requires-Python: >=3.8
Provides-Extra: binding
Requires-Dist: cffi; extra == "binding"
Requires-Dist: numpy>=2.1; extra == "binding"
Description-Content-Type: text/markdown

{text}
"""


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], check=True, capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def platform(library):
    """The platform tag: where the library starts."""
    others = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", library))) - SYSTEM
    if others:
        sys.exit(f"wheel: {library} needs {', '.join(sorted(others))}, which not every Linux has")
    versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", readelf("--version-info", library))
    machines = {"X86-64": "x86_64", "AArch64": "aarch64"}
    machine = next((tag for name, tag in machines.items() if re.search(rf"Machine:.*{name}", readelf("--file-header", library))), None)
    if machine is None or not versions:
        sys.exit(f"wheel: {library} is neither for glibc on x86-64 nor for that on AArch64")
    major, minor = max(tuple(map(int, version)) for version in versions)
    return f"manylinux_{major}_{minor}_{machine}"


def replaced(text, *pairs):
    """The text with each of these once replaced; one that is not there is an error."""
    for old, new in pairs:
        if text.count(old) != 1:
            sys.exit(f"wheel: {old!r} is there {text.count(old)} times, where it should be once")
        text = text.replace(old, new)
    return text.encode()


def package_files(prefix, version):
    """All of the package, by its path in it. Wheels have no links: the library has the name that programs look for."""
    config = next(iter(sorted(prefix.glob("lib*/**/umboConfig.cmake"))), None)
    if config is None:
        sys.exit(f"wheel: no umboConfig.cmake is under {prefix}; install the library there first (make install)")
    libraries = config.parents[2]
    soname = re.search(r"\(SONAME\).*\[(.*)\]", readelf("--dynamic", libraries / f"libumbo.so.{version}"))[1]
    at = libraries.relative_to(prefix).as_posix()
    files = {path.relative_to(prefix).as_posix(): path.read_bytes()
             for folder in (prefix / "include", config.parent) for path in folder.rglob("*") if path.is_file()}
    for path in (prefix / "share/umbo/adapters").rglob("*"):
        if path.is_file():
            files[path.relative_to(prefix).as_posix()] = path.read_bytes()
    files[config.relative_to(prefix).as_posix()] = replaced(
        config.read_text(), (f'libumbo.so.{version}")', f'{soname}")'))
    files[f"{at}/pkgconfig/umbo.pc"] = (libraries / "pkgconfig/umbo.pc").read_bytes()
    files[f"{at}/{soname}"] = (libraries / f"libumbo.so.{version}").read_bytes()
    # For -lumbo: the linker reads a link as a text.
    files[f"{at}/libumbo.so"] = f"INPUT({soname})\n".encode()
    files["binding.py"] = replaced((ROOT / "docs/python/binding.py").read_text(), ('"libumbo.so"', f'"{soname}"'))
    for name in "__init__.py", "__main__.py":
        text = (ROOT / "packaging/python" / name).read_text()
        files[name] = text.replace("@VERSION@", version).replace("@LIBRARIES@", at).replace("@SONAME@", soname).encode()
    return files, platform(libraries / f"libumbo.so.{version}")


def bill(tag):
    target = tag.split("_", 3)[3] + "-unknown-linux-gnu"
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "umbo.cdx.json")
        subprocess.run([sys.executable, str(ROOT / "scripts/sbom.py"), "--target", target, str(file)], check=True, stdout=subprocess.DEVNULL)
        return file.read_bytes()


def wheel_files(prefix):
    """All files of the wheel, and its name."""
    manifest = (ROOT / "Cargo.toml").read_text()
    version = re.search(r'^version = "(.*)"', manifest, re.M)[1]
    package, tag = package_files(prefix, version)
    files = {f"umbo/{name}": data for name, data in package.items()}
    info = f"umbo-{version}.dist-info"
    for name in "LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES.txt":
        files[f"{info}/licenses/{name}"] = (ROOT / name).read_bytes()
    files[f"{info}/sboms/umbo.cdx.json"] = bill(tag)
    summary = re.search(r'^description = "(.*)"', manifest, re.M)[1]
    text = "`python -m umbo --cmake-dir`, `--include-dir` and `--library` say where the library is.\n"
    files[f"{info}/METADATA"] = METADATA.format(version=version, summary=summary, text=text).encode()
    files[f"{info}/WHEEL"] = ("Wheel-Version: 1.0\nGenerator: umbo scripts/wheel.py\nRoot-Is-Purelib: false\n"
                              f"Tag: py3-none-{tag}\n").encode()
    record = []
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(files[name])}\n")
    files[f"{info}/RECORD"] = "".join(record + [f"{info}/RECORD,,\n"]).encode()
    return files, f"umbo-{version}-py3-none-{tag}.whl"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    prefix, folder = map(pathlib.Path, sys.argv[1:])
    files, name = wheel_files(prefix.resolve())
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6]
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        # What is about the package comes last, as PEP 427 has it, and the record of all at its end.
        for path in sorted(files, key=lambda path: (".dist-info/" in path, path.endswith("/RECORD"), path)):
            entry = zipfile.ZipInfo(path, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if re.search(r"/libumbo\.so\.[0-9.]+$", path) else 0o100644) << 16
            archive.writestr(entry, files[path])
    print(f"{folder / name}: {len(files)} files, {(folder / name).stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
