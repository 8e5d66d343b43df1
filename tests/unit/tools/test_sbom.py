"""The list of packages and models."""

import json
from pathlib import Path

from draftscope.traces.version import __version__
from tools.sbom import MANIFEST, main


def test_the_list_names_the_project_its_packages_and_its_models_with_licences(tmp_path: Path) -> None:
    packages = {
        "bomFormat": "CycloneDX",
        "metadata": {"timestamp": "2026-01-01T00:00:00Z"},
        "components": [{"name": "draftscope"}, {"name": "torch", "type": "library"}],
    }
    (tmp_path / "packages.json").write_text(json.dumps(packages))
    main([str(tmp_path / "packages.json"), "-o", str(tmp_path / "sbom.json")])
    listed = json.loads((tmp_path / "sbom.json").read_text())
    assert listed["metadata"]["component"]["version"] == __version__ and listed["metadata"]["timestamp"]
    names = [component["name"] for component in listed["components"]]
    manifest = json.loads(MANIFEST.read_text())
    assert names == ["torch", *sorted(manifest)]
    models = [component for component in listed["components"] if component["type"] == "machine-learning-model"]
    assert all(model["licenses"] and model["components"][0]["hashes"] for model in models)
    (image,) = (model for model in models if model["name"] == "image-ar")
    assert image["components"][0]["hashes"][0]["content"] == manifest["image-ar"]["sha256"]
