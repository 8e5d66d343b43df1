"""Add the models that ship, and the project itself, to a CycloneDX list of packages.

    python -m tools.sbom packages.json -o sbom.json

The list of packages, with their licences, is from `cyclonedx-py environment`.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from draftscope.traces.files import ROOT
from draftscope.traces.version import __version__

MANIFEST: Final = ROOT / "assets" / "models" / "MANIFEST.json"
LICENCE: Final = "Apache-2.0"
"""Licence of the weights, which were trained for this project; NOTICE has the sources of their data."""


def with_models(packages: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the list with a component for each model of the manifest, and the project as its subject.

    Args:
        packages: A CycloneDX document.
        manifest: Models by name, as in assets/models/MANIFEST.json.
    """
    subject = {
        "type": "application",
        "bom-ref": f"draftscope=={__version__}",
        "name": "draftscope",
        "version": __version__,
        "purl": f"pkg:pypi/draftscope@{__version__}",
        "licenses": [{"license": {"id": LICENCE}}],
    }
    others = [one for one in packages.get("components", ()) if one["name"] != "draftscope"]
    models = [_model(name, about) for name, about in sorted(manifest.items())]
    metadata = {**packages.get("metadata", {}), "component": subject}
    return {**packages, "metadata": metadata, "components": [*others, *models]}


def _model(name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    files = {about["file"]: about["sha256"]} if "file" in about else about["files"]
    return {
        "type": "machine-learning-model",
        "bom-ref": f"model:{name}",
        "name": name,
        "version": __version__,
        "description": f"{about['title']}; {about['parameters']:,} parameters; trained on: {about['data']}",
        "licenses": [{"license": {"id": LICENCE}}],
        "components": [
            {"type": "file", "name": file, "hashes": [{"alg": "SHA-256", "content": digest}]}
            for file, digest in sorted(files.items())
        ],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Read a list of packages and write it with the models."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("packages", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    packages = json.loads(options.packages.read_text(encoding="utf-8"))
    manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
    options.output.write_text(json.dumps(with_models(packages, manifest), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
