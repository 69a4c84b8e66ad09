#!/usr/bin/env python3
"""Writes the bill of materials of the library, in CycloneDX 1.6: all crates that are linked into libumbo.

    scripts/sbom.py [--target TRIPLE] FILE

Crates, and which needs which, are those that cargo links for the target, x86_64-unknown-linux-gnu unless another is named:
no crates of tests and none that only compilers load. Sums are those of Cargo.lock. The file depends on Cargo.lock and the
manifests alone, not on folder or time; $SOURCE_DATE_EPOCH is its time, if that is set.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "umbo")


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"sbom: {' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def linked(target):
    """The crates by (name, version), and for each those that it needs itself. The first one is the library."""
    lines = cargo(*"tree --package umbo --edges normal,no-proc-macro --prefix depth --no-dedupe".split(), "--target", target,
                  "--format", " {p}").splitlines()
    needs, above = {}, []
    for line in filter(None, lines):
        depth, name, version = line.split()[:3]
        del above[int(depth):]
        crate = (name, version.removeprefix("v"))
        needs.setdefault(crate, set())
        if above:
            needs[above[-1]].add(crate)
        above.append(crate)
    return needs


def reference(crate):
    return f"pkg:cargo/{crate[0]}@{crate[1]}"


def component(crate, package, sums):
    """A crate as CycloneDX has it. Those of this workspace have no sum of their own."""
    about = {"type": "library", "bom-ref": reference(crate), "name": crate[0], "version": crate[1], "scope": "required"}
    if package["description"]:
        about["description"] = " ".join(package["description"].split())
    if crate in sums:
        about["hashes"] = [{"alg": "SHA-256", "content": sums[crate]}]
    if package["license"]:
        about["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    about["purl"] = reference(crate)
    if package["repository"]:
        about["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return about


def bill(target):
    needs = linked(target)
    packages = json.loads(cargo("metadata", "--format-version", "1"))["packages"]
    packages = {(package["name"], package["version"]): package for package in packages}
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(entry["name"], entry["version"]): entry["checksum"] for entry in locked if "checksum" in entry}
    library = next(iter(needs))
    top = component(library, packages[library], sums)
    del top["scope"]
    metadata = {"component": top, "properties": [{"name": "umbo:target", "value": target}]}
    if "SOURCE_DATE_EPOCH" in os.environ:
        time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
        metadata = {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), **metadata}
    content = {
        "metadata": metadata,
        "components": [component(crate, packages[crate], sums) for crate in sorted(needs) if crate != library],
        "dependencies": [{"ref": reference(crate), "dependsOn": sorted(map(reference, needs[crate]))} for crate in sorted(needs)],
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(content, sort_keys=True))
    return {"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6",
            "serialNumber": f"urn:uuid:{serial}", "version": 1, **content}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", default="x86_64-unknown-linux-gnu")
    parser.add_argument("file", type=pathlib.Path)
    chosen = parser.parse_args()
    written = bill(chosen.target)
    chosen.file.parent.mkdir(parents=True, exist_ok=True)
    chosen.file.write_text(json.dumps(written, indent=2) + "\n")
    print(f"{chosen.file}: {len(written['components'])} crates in libumbo for {chosen.target}")


if __name__ == "__main__":
    main()
