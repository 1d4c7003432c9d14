"""This script lists the packages of its image, Debian's and Python's, as CycloneDX 1.6 on standard output.

    python sbom.py IMAGE IMAGE_ID TIMESTAMP

Standard library only: it runs inside the image, without a network.
"""

import json
import subprocess
import sys
import uuid
from importlib import metadata
from typing import Any
from urllib.parse import quote

FIELDS = "${Package}\\t${Version}\\t${Architecture}\\t${db:Status-Abbrev}\\n"


def of_debian() -> list[dict[str, Any]]:
    """Installed Debian packages."""
    packages = subprocess.run(["dpkg-query", "-W", "-f", FIELDS], capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in packages.splitlines()]
    return [
        component(name, version, f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}?arch={architecture}")
        for name, version, architecture, status in rows
        if status.startswith("ii")
    ]


def of_python() -> list[dict[str, Any]]:
    """Installed Python distributions, each once, with the licence that it states."""
    found = {}
    for distribution in metadata.distributions():
        name, version = distribution.metadata["Name"].lower().replace("_", "-"), distribution.version
        licence = distribution.metadata.get("License-Expression")
        found[name] = component(name, version, f"pkg:pypi/{quote(name)}@{quote(version, safe='')}", licence)
    return [found[name] for name in sorted(found)]


def component(name: str, version: str, purl: str, licence: str | None = None) -> dict[str, Any]:
    """One part."""
    stated = {"licenses": [{"expression": licence}]} if licence else {}
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, **stated}


def main() -> int:
    """Write the document."""
    image, identity, timestamp = sys.argv[1:4]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, identity)}",
        "version": 1,
        "metadata": {
            "timestamp": timestamp,
            "component": {"type": "container", "bom-ref": identity, "name": image, "version": identity},
        },
        "components": [*of_debian(), *of_python()],
    }
    sys.stdout.write(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
