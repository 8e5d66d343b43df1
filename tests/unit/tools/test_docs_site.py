"""What is generated for the documentation site, and that its navigation has every page."""

import json
import re

import pytest
import yaml

import draftscope as ds
from draftscope.traces.files import ROOT
from draftscope.traces.json_schema import json_schema
from tools.docs_site import (
    _FORMULA,
    _LINK,
    ROOT_PAGES,
    _link,
    _mathml,
    command_reference,
    python_reference,
    schema_reference,
)

GENERATED = {"reference/python.md", "reference/commands.md", "reference/trace-schema.md"}


def named(entry: object) -> list[str]:
    """Return the pages of an entry of the navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in named(part)]  # type: ignore[attr-defined]


def test_every_page_is_in_the_navigation_once() -> None:
    pages = named(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert len(pages) == len(set(pages))
    assert set(pages) == written | GENERATED | set(ROOT_PAGES)


@pytest.mark.parametrize(
    ("here", "link", "becomes"),
    [
        ("python.md", "figures.md#sweeps", "figures.md#sweeps"),
        ("methods/scd.md", "../measured.md", "../measured.md"),
        ("methods/scd.md", "../../engines/methods/scd.py", "R/blob/main/engines/methods/scd.py"),
        ("design.md", "../CONTRIBUTING.md#rules", "CONTRIBUTING.md#rules"),
        ("howto/author.md", "../../README.md", "../index.md"),
        ("ARCHITECTURE.md", "docs/design.md", "design.md"),
        ("CONTRIBUTING.md", "docs/methods", "R/tree/main/docs/methods"),
        ("python.md", "#chat", "#chat"),
        ("python.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("python.md", "missing.md", "missing.md"),
    ],
)
def test_links_lead_to_pages_of_the_site_or_to_the_repository(here: str, link: str, becomes: str) -> None:
    assert _LINK.sub(lambda match: _link(match, here, "R"), f"[a]({link})") == f"[a]({becomes})"


def test_formulas_become_mathml() -> None:
    made = _FORMULA.sub(_mathml, r'<p><span class="arithmatex">\(p(x) &lt; q\)</span></p>')
    assert "<math" in made and "<mo>&lt;</mo>" in made.replace("&#x0003C;", "&lt;") and "arithmatex" not in made


def test_the_references_have_every_name_command_and_field() -> None:
    assert sorted(re.findall(r"^::: draftscope\.(\w+)$", python_reference(), re.MULTILINE)) == sorted(ds.__all__)
    commands = command_reference()
    for name in ("run", "site", "trace validate", "experiment run"):
        assert f"`draftscope {name}`" in commands
    schema = json_schema()
    page = schema_reference(schema)
    for record in ("Step", "Trace", "Sums"):
        assert f"\n## {record}\n" in page
    fields = {field for record in schema["$defs"].values() for field in record.get("properties", ())}
    assert [field for field in fields | schema["properties"].keys() if f"| `{field}`" not in page] == []
    assert json.dumps(schema["$id"])[1:-1] in page
