"""Hooks of MkDocs: generated pages, links that leave docs/, formulas as MathML, recordings and lessons that play.

`mkdocs.yml` names this file. Pages of the repository's root become pages of the site, links to other files of the
repository lead to its public address, and formulas are converted while the site is built, so that a page loads nothing
from elsewhere.
"""

import html
import json
import posixpath
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer.main
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.cli import get_docs_for_click

import draftscope
from draftscope.acceptance_files import drafter_rates
from draftscope.cli.main import NAME, app
from draftscope.traces import read
from draftscope.traces.schema import VERSION
from draftscope.visualizers.lessons import LESSONS, lesson_html
from draftscope.visualizers.site import write_site

ROOT: Final = Path(__file__).parents[1]
ROOT_PAGES: Final = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
SCHEMA: Final = "trace.schema.json"
RECORDINGS: Final = (
    *("speculative-juice", "ar-juice", "speculative-smollm2", "ar-smollm2", "scd-picture-same", "ar-picture-same"),
    *("tally-s2d2", "tally-psd", "tally-ordinary", "cspd-patch", "continuous-patch", "video-scd", "video-ar"),
)
"""Files of assets/traces that play in the pages."""
_LINK: Final = re.compile(r"(\]\()([^)\s]+)(\))")
_FENCE: Final = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)
_FRAME: Final = re.compile(r'<iframe src="([^"#]+)')
_FORMULA: Final = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the addresses of site and repository from pyproject.toml."""
    addresses = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    config.site_url, config.repo_url = addresses["Documentation"], addresses["Repository"]
    config.repo_name = config.repo_url.partition("://")[2].partition("/")[2]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository's root and the generated reference."""
    pages = {name: (ROOT / name).read_text(encoding="utf-8") for name in ROOT_PAGES}
    pages |= {
        "reference/python.md": python_reference(),
        "reference/commands.md": command_reference(),
        "reference/trace-schema.md": schema_reference(json.loads((ROOT / "docs" / SCHEMA).read_text(encoding="utf-8"))),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links within the repository links of the site, or to the repository's public address."""
    parts = _FENCE.split(markdown)
    here = page.file.src_uri
    parts[::2] = [_LINK.sub(lambda match: _link(match, here, config.repo_url or ""), part) for part in parts[::2]]
    return "".join(parts)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Convert formulas from TeX to MathML."""
    return _FORMULA.sub(_mathml, content)


def on_post_build(config: MkDocsConfig) -> None:
    """Write the recordings and lessons that the pages embed, and the schema at its versioned address."""
    site = Path(config.site_dir)
    schema = site / "schema" / VERSION / SCHEMA
    schema.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "docs" / SCHEMA, schema)
    named = [(name, read(ROOT / "assets" / "traces" / f"{name}.json.gz")) for name in RECORDINGS]
    write_site(named, site / "recordings", "Recordings", rates=drafter_rates(named))
    (site / "lessons").mkdir(exist_ok=True)
    for name in ("", *LESSONS):
        (site / "lessons" / f"{name or 'index'}.html").write_text(lesson_html(name), encoding="utf-8")
    for page in site.rglob("*.html"):
        for source in _FRAME.findall(page.read_text(encoding="utf-8")):
            if not (page.parent / source).is_file():
                raise PluginError(f"{page.name}: the iframe shows {source}, which was not written; see RECORDINGS.")


def python_reference() -> str:
    """Return the page of all names of `import draftscope as ds`, and of the widget, which needs a further package."""
    names = sorted(draftscope.__all__, key=lambda name: (name[0].islower(), name.lower()))
    entries = "\n\n".join(f"::: draftscope.{name}" for name in names)
    head = "# Python reference\n\nAll names of `import draftscope as ds`; [the guide](../python.md) has examples."
    return f"{head}\n\n{entries}\n\n::: draftscope.notebook.Player\n"


def command_reference() -> str:
    """Return the page of all commands with their options."""
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name=NAME)
    text = get_docs_for_click(obj=command, ctx=context, name=NAME, title="Commands")
    return re.sub(r"^# Commands\n", "# Commands\n\nWhat `draftscope COMMAND --help` prints.\n", text, count=1)


def schema_reference(schema: Mapping[str, Any]) -> str:
    """Return the page of all records and fields of a trace, from its JSON Schema."""
    head = (
        "# Trace schema\n\n"
        f"Version {VERSION}, generated from [{SCHEMA}](../{SCHEMA}), whose `$id` is `{schema['$id']}`. "
        "[The trace](../trace.md) explains how to read it.\n"
    )
    records = {"Trace": schema, **schema["$defs"]}
    return head + "".join(_record(name, record) for name, record in records.items() if "properties" in record)


def _record(name: str, record: Mapping[str, Any]) -> str:
    rows = "".join(
        f"| `{field}`{'' if field in record.get('required', ()) else ' (optional)'} | {_type_of(about)} | "
        f"{_cell(about.get('description', ''))} |\n"
        for field, about in record["properties"].items()
    )
    return f"\n## {name}\n\n{record.get('description', '')}\n\n| field | type | meaning |\n|---|---|---|\n{rows}"


def _type_of(about: Mapping[str, Any]) -> str:
    """Return the type of a node of the schema, in words."""
    return _cell(" or ".join(dict.fromkeys(_types_of(about))))


def _types_of(about: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in about:
        name = about["$ref"].rsplit("/", 1)[-1]
        yield f"[{name}](#{name.lower()})" if name != "Fate" else "a [fate](../trace.md#fates)"
    elif "anyOf" in about:
        for option in about["anyOf"]:
            yield from _types_of(option)
    elif "enum" in about or "const" in about:
        yield from (f"`{value}`" for value in about.get("enum", [about.get("const")]))
    elif about.get("type") == "array":
        parts = about.get("prefixItems") or [about.get("items", {})]
        yield f"list of {', '.join(_type_of(part) for part in parts)}"
    elif about.get("type") == "object" and "additionalProperties" in about:
        inner = about["additionalProperties"]
        yield f"map to {_type_of(inner)}" if isinstance(inner, dict) else "map"
    else:
        yield str(about.get("type", "any value"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _link(match: re.Match[str], here: str, repository: str) -> str:
    target, hash_sign, anchor = match[2].partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return match[0]
    folder = "" if here in ROOT_PAGES else posixpath.join("docs", posixpath.dirname(here))
    path = posixpath.normpath(posixpath.join(folder, target))
    if path.startswith("docs/") and not (ROOT / path).is_dir():
        inside = path.removeprefix("docs/")
    elif path in ROOT_PAGES:
        inside = path
    elif path == "README.md":
        inside = "index.md"
    elif (ROOT / path).exists():
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{match[1]}{repository}/{kind}/main/{path}{hash_sign}{anchor}{match[3]}"
    else:
        return match[0]
    relative = posixpath.relpath(inside, posixpath.dirname(here) or ".")
    return f"{match[1]}{relative}{hash_sign}{anchor}{match[3]}"


def _mathml(match: re.Match[str]) -> str:
    display = "inline" if match[1] == "span" else "block"
    return convert(html.unescape(match[2]), display=display)
