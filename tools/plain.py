"""Check the wording of the repository: docstrings, comments, strings, Markdown, HTML, names and commit subjects.

    python tools/plain.py                   report what exceeds the baseline, commit subjects included
    python tools/plain.py --all             report every finding, then counts by rule and by folder
    python tools/plain.py --update          lower the baseline to the present counts; it never rises
    python tools/plain.py --message FILE    check the subject of a commit message (hook commit-msg)

The baseline, tools/plain.json, holds the number of findings allowed in each file. Findings may move between files, but
their sum may only fall. A line that contains "plain: ignore" is skipped: the check is a help, and a false alarm is
exempted where it occurs. Code spans, fenced code and links in Markdown are skipped, and so are strings that are not
prose (CSS, HTML, SQL, shape annotations such as "W V"). Only the standard library is used, so that a hook can run it
with any Python.

Exit code: 0 nothing above the baseline, 1 findings, 2 usage.
"""

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

# Rule -> (pattern, advice). Patterns are case-insensitive and matched against one paragraph of prose.
PROSE = {
    "whoever": (r"\b(?:who|whom|which)ever\b(?! comes first)", "name the actor: user, client, caller"),
    "somebody": (r"\b(?:some|no|every|any)body\b", "name the actor: user, client, caller, position"),
    "so many": (r"\b(?:at most |at least |of |the first |last )?so (?:many|few) \w+", "give the parameter's name"),
    "one's own": (r"\b(?:one's own|of (?:ours|yours|theirs|one's))\b", "custom, local, your own"),
    "stand": (
        r"\b(?:stands?|stood|standing) (?:in|beside|behind|at|there|before|so|for|between|apart|above|below)\b",
        "is, comes, replaces",
    ),
    "lie": (
        r"\b(?:lies|lay|lie|lying) (?:in|at|on|behind|below|beside|above|outside|within|there|where|so|off|next)\b",
        "is, is stored in",
    ),
    "beside": (r"\bbesides?\b", "with, next to, compared with, and"),
    "behind": (r"\bbehind\b(?! (?:an?|one|the|its) (?:reverse |https? )?(?:proxy|router|firewall|network))", "after"),
    "told": (r"\b(?:told|tells? (?:of|that|apart|how|what|whether)|telling)\b", "reported, returned, shown"),
    "says": (
        r"\b(?:says?|said) (?:how|what|which|where|when|who|whether|why|nothing|so|of|otherwise|less|more)\b",
        "gives, specifies, reports",
    ),
    "is no": (
        r"(?<!there )\b(?:is|are|was) (?-i:no(?:ne)?)\b(?! longer| more| less| larger| greater| smaller| other)",
        "is not a, is invalid",
    ),
    "that there is": (
        r"\b(?:that|what|which|as|where|while) there (?:is|are|was|were)\b(?= ?[.,;:)]|$)",
        "existing, available",
    ),
    "hand over": (r"\b(?:handed|hands?|handing) over\b", "pass, passed"),
    "hung up": (r"\bh(?:u|a)ngs? up\b", "disconnected"),
    "anew": (r"\banew\b", "again, regenerate"),
    "put to the test": (r"\bputs?(?:ting)? .{0,30}\bto the test\b", "verify"),
    "coin": (r"\bcoins?\b", "uniform draw"),
    "hindsight": (r"\b(?:hindsight|foresight|foretell\w*|foresees?)\b", "oracle, prediction"),
    "place": (
        r"\b(?:its|their|the|an?|every|each|this|that|one|which|of|at|by|two|such|another|last|first|same|whose) "
        r"places?\b(?! (?:of business|to start))",
        "position, slot, index, path, device",
    ),
    "at hand": (r"\bat hand\b", "available, loaded, current"),
    "is over": (r"\b(?:run|race|time|it|that|all|which|one|work) (?:is|was|are) over\b", "finished, has passed"),
    "begun": (r"\b(?:had|has|have|is|was|not) begun\b", "started"),
    "in turn": (r"\b(?:by turns|in turns|takes? turns|one's turn|their turn|its turn)\b", "alternate, round robin"),
    "came to": (r"\bwhat (?:\w+ ){1,3}(?:came|comes?) to\b|\bcomes? to(?: [\d{]|:)", "result, total"),
    "became of": (r"\bbec(?:ame|omes?) of\b", "outcome, result"),
    "makes of": (r"\bma(?:kes?|de) of (?:it|them|a|the|each|positions|one|these)\b", "result of, computes from"),
    "goes by": (r"\bgo(?:es)? by\b", "uses, is named, sorted by"),
    "in line": (r"\b(?:stands?|stood|waits?|are|is|place) in (?:the |a )?line\b", "queue"),
    "quaint": (
        r"\b(?:likewise|thereof|whereof|wherein|therein|hence|henceforth|aught|nay|lest|ere|amid|naught"
        r"|all the same|all but|none but|but for|for want of|in so far|as it stands)\b",
        "plain word",
    ),
    "would-be": (r"\b(?:is|are) to be\b|\b(?:is|are) to (?:come|go|leave|stay|last|follow)\b", "must be, will"),
    "judge": (r"\bjudg(?:e|ed|es|ing)\b", "verify, verified; target or verifier for the model"),
    "ask for": (r"\basked for\b|\bmay ask of\b|\bwhat is asked\b", "requested, requirements"),
    "sound": (r"\b(?:is|are|no|a) sound\b|\bsound (?:trace|file|results?|timings?|records?)\b", "valid"),
    "riddle": (r"\bthe (?:one or the other|others? of (?:it|them)|same of|like of)\b|\bwho sees whom\b", "name both"),
}
# Rules for the first words of a docstring: fragments that only make sense after another sentence.
DOCSTRING = {
    "fragment": (
        r"(?:The same\b|And \b|Of \b|As \b|See `|Also\b|By default\b|But\b)(?!.{0,40} \(arXiv)",
        "write a full summary line; inherit docs of overridden methods instead of 'See'",
    ),
    "who": (r"(?:Who|Whose|Whom|Where|When|What)\b", "start with a noun or verb: 'Queue for the model'"),
}
COMMIT = {
    "vague verb": (
        r"^[\w/.-]+: (?:say|tell|see that|see|let|keep|judge|hold|leave|speak|look|make sure)\b",
        "fix, add, remove, rename, report, test",
    ),
}
# Identifiers (whole words of functions, arguments, variables and attributes that are assigned).
NAMES = re.compile(
    r"^_?(?:told|tell|said|say|held|own|given|asked|asks?|there|beside|behind|most|least|fewest|places?|whole|gone|made|"
    r"kept|taken|seat|usual|rest|some|few|these|every|due|by|own_\w+|beside_\w+|(?!test_)\w+_told|(?!test_)\w+_place|"
    r"place_\w+|\w+_most|most_\w+|MOST_\w+|LEAST_\w+|FEWEST_\w+)$"
)
# Packages whose public functions all describe their parameters; more are added as they are described.
DESCRIBED = (
    *("analysis/", "engines/", "traces/", "visualizers/"),
    *("draftscope/certificates/", "draftscope/experiments/", "draftscope/servers/"),
)
# Methods of protocols (engines/protocol.py, engines/sampling, and executors and sources in draftscope), and functions
# that each family of checkpoints (engines/models/checkpoints/families.py) or each method has.
INTERFACES = {
    *("make_task", "make_legend", "open_session", "open_drafter_session", "forward", "logits", "count_tokens"),
    *("accept", "categorical", "gumbel_argmax", "uniform", "normal", "execute", "draw"),
}
FAMILY_FUNCTIONS = {"load", "needs", "decode"}
PROSE_STRING = re.compile(r"[A-Za-z][a-z']+,? [a-z']{2,},? [a-z']+")
NOT_PROSE = re.compile(r"[{};]\s*\n|</?\w+[ >]|=>|^\s*[.#]\w[\w-]*\s*\{|--\w+: |^(?:SELECT|INSERT)\b|function ?\(")
IGNORE = "plain: ignore"
EXCLUDED = re.compile(r"^(?:LICENSE|locks/|assets/|CHANGELOG|tools/plain\.py|tests/unit/tools/)")
MAX_SUBJECT = 72
SUBJECT = re.compile(rf"(?=.{{1,{MAX_SUBJECT}}}$)[\w./ -]+: [a-z0-9`\"“]")


class Finding(NamedTuple):
    """A use of banned wording."""

    file: str
    line: int
    kind: str
    rule: str
    text: str
    advice: str

    def line_of_report(self) -> str:
        """Return the finding as a line that editors can follow."""
        return f"{self.file}:{self.line}: {self.kind}: {self.rule}: {self.text} ({self.advice})"


def match(rules: dict[str, tuple[str, str]], text: str, file: str, line: int, kind: str) -> Iterator[Finding]:
    """Yield findings of all rules in a piece of prose that starts at a line."""
    for rule, (pattern, advice) in rules.items():
        for found in re.finditer(pattern, text, re.IGNORECASE):
            start = text.rfind("\n", 0, found.start()) + 1
            stop = text.find("\n", found.end())
            where = line + text.count("\n", 0, found.start())
            shown = " ".join(text[start : stop if stop >= 0 else None].split())
            if IGNORE not in shown:
                yield Finding(file, where, kind, rule, shown[:110], advice)


def blank_text(text: str) -> str:
    """Return spaces in place of a text, keeping line breaks."""
    return re.sub(r"[^\n]", " ", text)


def blank(found: re.Match[str]) -> str:
    """Return spaces in place of the matched text, keeping line breaks."""
    return blank_text(found[0])


def prose(text: str) -> str:
    """Blank out code spans, URLs and placeholders, keeping line breaks."""
    return re.sub(r"``[^`]+``|`[^`\n]+`|https?://\S+|\{[^{}\n]*\}", blank, text)


def docstrings(tree: ast.AST) -> dict[int, tuple[int, str]]:
    """Return line and text of docstrings and of the string literals that document a variable, by node id."""
    found = {}
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else ():
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                found[id(child.value)] = (child.lineno, child.value.value)
    return found


def in_python(file: str, source: str) -> Iterator[Finding]:
    """Yield findings in docstrings, comments, strings and names of a Python file."""
    tree = ast.parse(source)
    documented = docstrings(tree)
    for line, text in documented.values():
        yield from match(PROSE, prose(text), file, line, "docstring")
        yield from in_first_words(file, line, text)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in documented:
            continue
        if PROSE_STRING.search(node.value) and not NOT_PROSE.search(node.value):
            yield from match(PROSE, prose(node.value), file, node.lineno, "string")
    yield from in_names(file, tree)
    yield from in_parameters(file, tree) if file.startswith(DESCRIBED) else ()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from match(PROSE, prose(token.string), file, token.start[0], "comment")


def in_parameters(file: str, tree: ast.Module) -> Iterator[Finding]:
    """Yield public functions of several parameters that do not describe them, in the packages of `DESCRIBED`."""
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_")
    owners: list[ast.Module | ast.ClassDef] = [tree, *classes]
    for owner in owners:
        for node in owner.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
                continue
            parameters = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            names = {one.arg for one in parameters} - {"self", "cls"}
            inherits = node.name in (FAMILY_FUNCTIONS if owner is tree else INTERFACES) or any(
                "override" in ast.unparse(one) for one in node.decorator_list
            )
            text = ast.get_docstring(node) or ""
            described = "Args:" in text or all(re.search(rf"\b{name.rstrip('_')}s?\b", text) for name in names)
            if len(names) > 1 and not inherits and not described:
                advice = "name every parameter, or add Args with shapes, units, range, what happens at the edge"
                yield Finding(file, node.lineno, "docstring", "args", node.name, advice)


def in_names(file: str, tree: ast.AST) -> Iterator[Finding]:
    """Yield one finding for every banned name that a file defines."""
    seen = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
        else:
            continue
        if name and name not in seen and NAMES.match(name):
            seen.add(name)
            yield Finding(file, node.lineno, "name", "name", name, "a noun with a unit or role: max_, num_, _path ...")


def in_markdown(file: str, source: str) -> Iterator[Finding]:
    """Yield findings in the prose of a Markdown file."""
    text = re.sub(r"^(```|~~~).*?^\1", blank, source, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)\n]*\)|<!--(?!.*plain: ignore).*?-->", blank, text)
    yield from match(PROSE, prose(text), file, 1, "markdown")


# A value in a template: code, in which there may be strings and templates again.
VALUE = re.compile(r"\$\{(?:[^{}`]|`[^`]*`|\{[^{}]*\})*\}")
QUOTED = r'"(?P<a>(?:\\.|[^"\\\n])*)"|\'(?P<b>(?:\\.|[^\'\\\n])*)\''
TOML = re.compile(rf"(?P<comment>#[^\n]*)|{QUOTED}")
SCRIPT = re.compile(rf"(?P<comment>//[^\n]*|/\*.*?\*/)|{QUOTED}|`(?P<c>(?:\\.|{VALUE.pattern}|[^`\\])*)`", re.DOTALL)


def in_toml(file: str, source: str) -> Iterator[Finding]:
    """Yield findings in comments and strings of a TOML file."""
    yield from in_strings(file, source, TOML)


def in_script(file: str, source: str) -> Iterator[Finding]:
    """Yield findings in comments, strings and names of a JavaScript or TypeScript file."""
    yield from in_script_names(file, SCRIPT.sub(blank, source))
    yield from in_strings(file, source, SCRIPT)


def in_style(file: str, source: str) -> Iterator[Finding]:
    """Yield findings in comments of a style sheet."""
    for found in re.finditer(r"/\*.*?\*/", source, re.DOTALL):
        yield from match(PROSE, prose(found[0]), file, source.count("\n", 0, found.start()) + 1, "comment")


def in_strings(file: str, source: str, parts: re.Pattern[str], first_line: int = 1) -> Iterator[Finding]:
    """Yield findings in comments and strings, those within values of templates included.

    Args:
        file: Path for the findings.
        source: Code that starts at `first_line`.
        parts: `TOML` or `SCRIPT`: matches a comment or a string.
        first_line: Line of the file, from 1.
    """
    for found in parts.finditer(source):
        line, comment = first_line + source.count("\n", 0, found.start()), found["comment"]
        text = comment or found["a"] or found["b"] or found.groupdict().get("c") or ""
        if text.startswith("/**"):
            yield from in_first_words(file, line, text.lstrip("/* \n"))
        if found.groupdict().get("c"):
            for value in VALUE.finditer(text):
                yield from in_strings(file, value[0], parts, line + text.count("\n", 0, value.start()))
            text = VALUE.sub(blank, text)
        if comment or (PROSE_STRING.search(text) and not NOT_PROSE.search(text)):
            yield from match(PROSE, prose(text), file, line, "comment" if comment else "string")


def in_first_words(file: str, line: int, text: str) -> Iterator[Finding]:
    """Yield findings in the first words of a docstring or JSDoc comment."""
    first = text.strip().split("\n\n")[0]
    for rule, (pattern, advice) in DOCSTRING.items():
        if re.match(pattern, first) and IGNORE not in first:
            yield Finding(file, line, "docstring", rule, " ".join(first.split())[:110], advice)


# Attributes whose values are read, by eye or by a screen reader; other values, tags and scripts are no prose.
READ_ATTRIBUTES = re.compile(r"\b(?:title|alt|aria-label|placeholder)=(\"[^\"]*\"|'[^']*')")
TAG = re.compile(r"<!--.*?-->|</?[a-zA-Z!](?:\"[^\"]*\"|'[^']*'|[^'\">])*>", re.DOTALL)


def in_markup(file: str, source: str) -> Iterator[Finding]:
    """Yield findings in the text, scripts and style sheets of an HTML file."""
    text = source
    for tag, reader in (("script", in_script), ("style", in_style)):
        parts = re.compile(rf"(<{tag}\b[^>]*>)(.*?)(</{tag}>)", re.DOTALL)
        for found in parts.finditer(source):
            yield from reader(file, blank_text(source[: found.start(2)]) + found[2])
        text = parts.sub(blank, text)
    for found in TAG.finditer(text):
        for value in READ_ATTRIBUTES.finditer(found[0]):
            line = text.count("\n", 0, found.start() + value.start(1)) + 1
            yield from match(PROSE, prose(value[1]), file, line, "markup")
    yield from match(PROSE, prose(TAG.sub(blank, text)), file, 1, "markup")


# What follows a keyword, precedes an arrow, is a method's head, or is assigned to a field: names, or lists of names.
DEFINED = re.compile(
    r"\b(?:const|let|var)\s+(?P<a>\w+|\{[^{}]*\}|\[[^\[\]]*\])\s*(?:=|of\b|in\b|;)|\b(?:function\s*\*?|class)\s*(?P<b>\w+)"
    r"|\bfunction\s*\w*\s*\((?P<c>[^()]*)\)|\((?P<d>[^()]*)\)\s*=>|\b(?P<e>\w+)\s*=>"
    r"|^ {2,4}(?:(?:async|static|get|set) )*(?P<f>\w+)\((?P<g>[^()]*)\) \{$|\bthis\.(?P<h>\w+) = ",
    re.MULTILINE,
)


def in_script_names(file: str, source: str) -> Iterator[Finding]:
    """Yield one finding for every banned name that a JavaScript file defines; `source` has no comments or strings.

    In `{ key: name }` the key is a name of another file, and a default value defines nothing.
    """
    seen = set()
    for found in DEFINED.finditer(source):
        names = " ".join(filter(None, found.groups()))
        for name in re.findall(r"\b[A-Za-z_]\w*\b(?!\s*:)", re.sub(r"=[^,{}\[\]]*", "", names)):
            if name not in seen and NAMES.match(name):
                seen.add(name)
                line = source.count("\n", 0, found.start()) + 1
                yield Finding(file, line, "name", "name", name, "a noun with a unit or role: max, num, path ...")


READERS = {
    ".py": in_python,
    ".md": in_markdown,
    ".js": in_script,
    ".ts": in_script,
    ".html": in_markup,
    ".css": in_style,
    ".toml": in_toml,
}


def in_checkout(root: Path) -> Iterator[Finding]:
    """Yield findings in all tracked files but those of `EXCLUDED`."""
    for file in sorted(filter(None, git(root, "ls-files", "-z").split("\0"))):
        reader = READERS.get(Path(file).suffix)
        if reader is None or EXCLUDED.search(file) or not (root / file).is_file():
            continue
        try:
            yield from reader(file, (root / file).read_text(encoding="utf-8"))
        except (SyntaxError, tokenize.TokenError) as error:
            print(f"{file}: skipped ({error})", file=sys.stderr)


def in_subjects(subjects: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """Yield findings in commit subjects, given as (commit, subject)."""
    for commit, subject in subjects:
        yield from match(PROSE | COMMIT, prose(subject), commit, 1, "commit")
        if not SUBJECT.match(subject):
            advice = f"use 'part: what changes', lower case after the colon, at most {MAX_SUBJECT} characters"
            yield Finding(commit, 1, "commit", "form", subject[:110], advice)


# Subjects that were merged before the hook commit-msg checked them.
MERGED_SUBJECTS = {"4955cb0", "0837bd8", "b17bdb8", "aee937a"}


def commits_since_introduction(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (commit, subject) of all commits after the one that added this check, none in a clone without history."""
    added = git(root, "log", "--diff-filter=A", "--format=%H", "--", "tools/plain.py").split()
    if added:
        for line in git(root, "log", "--no-merges", "--format=%h %s", f"{added[-1]}..HEAD").splitlines():
            commit, _, subject = line.partition(" ")
            if commit[:7] not in MERGED_SUBJECTS:
                yield commit, subject


def git(root: Path, *arguments: str) -> str:
    """Return what git prints."""
    return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True).stdout


def report(findings: Sequence[Finding]) -> None:
    """Print counts by kind, rule and top folder."""
    files = [finding for finding in findings if finding.kind != "commit"]
    for title, counts in (
        ("kind", Counter(finding.kind for finding in findings)),
        ("rule", Counter(finding.rule for finding in findings)),
        ("folder", Counter(finding.file.split("/")[0] for finding in files)),
    ):
        print(f"by {title}: " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    print(f"{len(findings)} findings in {len({finding.file for finding in files})} files")


def above_baseline(findings: Sequence[Finding], allowed: Mapping[str, int]) -> list[Finding]:
    """Return the findings of files that have more than the baseline allows, if their sum has grown; and of commits.

    Args:
        findings: All findings.
        allowed: Findings allowed, by file.
    """
    counts = Counter(finding.file for finding in findings if finding.kind != "commit")
    grown = {file for file, count in counts.items() if count > allowed.get(file, 0)}
    if counts.total() <= sum(allowed.values()):
        grown = set()  # findings have moved with their files
    return [finding for finding in findings if finding.kind == "commit" or finding.file in grown]


def check_message(path: Path) -> int:
    """Report findings in the subject of a commit message, and return the exit code. Git's own subjects pass."""
    subject = path.read_text(encoding="utf-8").partition("\n")[0]
    if subject.startswith(("Merge ", "Revert ", "fixup! ")):
        return 0
    findings = [*in_subjects([("subject", subject)])]
    for finding in findings:
        print(finding.line_of_report())
    return bool(findings)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("root", type=Path, nargs="?", default=Path(__file__).parents[1], help="the checkout")
    parser.add_argument("--all", action="store_true", help="report every finding")
    parser.add_argument("--count", action="store_true", help="print counts of all findings only")
    parser.add_argument("--update", action="store_true", help="lower the baseline to the present counts")
    parser.add_argument("--message", type=Path, metavar="FILE", help="check a commit message and nothing else")
    options = parser.parse_args(arguments)
    baseline = options.root / "tools" / "plain.json"

    if options.message:
        return check_message(options.message)
    if not (options.root / ".git").exists():
        print("plain.py: not a Git checkout, so nothing was checked", file=sys.stderr)
        return 0
    findings = [*in_checkout(options.root)]
    allowed = json.loads(baseline.read_text(encoding="utf-8")) if baseline.is_file() else {}
    if options.update:
        counts = dict(sorted(Counter(finding.file for finding in findings).items()))
        if allowed and sum(counts.values()) > sum(allowed.values()):
            print(f"{len(findings)} findings, the baseline allows {sum(allowed.values())}; it never rises.")
            return 1
        baseline.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
        print(f"{baseline.name}: {sum(counts.values())} findings are allowed")
        return 0
    if options.all or options.count:
        shown = findings
    else:
        shown = above_baseline([*findings, *in_subjects(commits_since_introduction(options.root))], allowed)
    if not options.count:
        for finding in shown:
            print(finding.line_of_report())
    if shown:
        report(shown)
    return bool(shown)


if __name__ == "__main__":
    sys.exit(main())
