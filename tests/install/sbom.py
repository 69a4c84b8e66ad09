"""The bill of materials that scripts/sbom.py writes has what CycloneDX demands, all crates of a built library, and no others.

    sbom.py SOURCES LIBRARY AR TARGET FOLDER

LIBRARY is libumbo.a, whose objects are named after the crates that they are from.
"""
import json
import pathlib
import re
import subprocess
import sys
import tomllib

sources, library, ar, target, folder = sys.argv[1:]
sources, folder = pathlib.Path(sources), pathlib.Path(folder)


def output(*command):
    return subprocess.run(command, cwd=sources, check=True, capture_output=True, text=True).stdout


def made(name):
    output(sys.executable, str(sources / "scripts/sbom.py"), "--target", target, str(folder / name / "umbo.cdx.json"))
    return (folder / name / "umbo.cdx.json").read_bytes()


def in_library():
    """The crates of the library's objects, without those of Rust's standard library."""
    found = {match[1] for match in map(re.compile(r"(\w+)-[0-9a-f]{16}\.").match, output(ar, "t", library).split()) if match}
    installed = pathlib.Path(output("rustc", "--print", "sysroot").strip()) / "lib/rustlib" / target / "lib"
    return found - {re.match(r"lib(\w+)-", file.name)[1] for file in installed.glob("*.rlib")}


def reached():
    """All that the library may link, with whatever features: what normal dependencies of the package at the top lead to."""
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    packages = {package["id"]: (package["name"], package["version"]) for package in metadata["packages"]}
    todo, found = [next(name for name, package in packages.items() if package[0] == "umbo")], set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [to["pkg"] for to in nodes[name]["deps"] if any(kind["kind"] is None for kind in to["dep_kinds"])]
    return {packages[name] for name in found}


bill = made("first")
assert made("second") == bill, "two bills of one tree differ"
assert str(sources).encode() not in bill, "the bill names the folder of the sources"
bill = json.loads(bill)
assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", bill["serialNumber"]), bill["serialNumber"]
top = bill["metadata"]["component"]
assert top["name"] == "umbo" and top["type"] == "library", top
locked = tomllib.loads((sources / "Cargo.lock").read_text())["package"]
sums = {(entry["name"], entry["version"]): entry.get("checksum") for entry in locked}
listed = [(part["name"], part["version"]) for part in [top] + bill["components"]]
assert len(set(listed)) == len(listed), "a crate is listed twice"
for part in [top] + bill["components"]:
    crate = (part["name"], part["version"])
    assert part["type"] == "library" and part["licenses"][0]["expression"], part
    assert part["purl"] == part["bom-ref"] == "pkg:cargo/%s@%s" % crate, part
    assert [sum["content"] for sum in part.get("hashes", [])] == ([sums[crate]] if sums[crate] else []), part
references = {part["bom-ref"] for part in [top] + bill["components"]}
assert {entry["ref"] for entry in bill["dependencies"]} == references, "not all crates have their dependencies"
needed = {to for entry in bill["dependencies"] for to in entry["dependsOn"]}
assert needed == references - {top["bom-ref"]}, "a crate is needed that is not listed, or listed and not needed"

names = {name.replace("-", "_") for name, _ in listed}
missing = in_library() - names
assert not missing, f"the library has objects of {sorted(missing)}, which the bill has not"
assert len(in_library()) > 20, "the objects of the library tell no crates"
others = set(listed) - reached()
assert not others, f"the bill has {sorted(others)}, which the library does not need"
for name in "proptest", "cbindgen", "loom", "umbo-tests", "umbo-macros", "fake-cuda":
    assert name in {entry["name"] for entry in locked} and name.replace("-", "_") not in names, name
print(f"{len(listed)} crates, of which {len(in_library())} have objects in {library}")
