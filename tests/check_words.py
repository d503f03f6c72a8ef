"""Check that messages, docstrings and docs use the words of docs/explanation/glossary.md, and none that it forbids.

Part of `make lint`. A message is a string literal below the folders of `SOURCES` that holds two words or more; a
docstring is one of them; a page is a Markdown file of docs/ or of the root, without its code blocks, code spans and
links. `WORDS` is the right column of the glossary as patterns, each with the word to use. The glossary itself and
newsfragments are not read. `python tests/check_words.py --rewrite` lowers `ALLOWED` to what is found.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parents[1]
GLOSSARY: Final = "docs/explanation/glossary.md"
#: Folders whose messages and docstrings are read.
SOURCES: Final = ("snapkafka", "studies", "tools")

#: A forbidden phrase, and what to use in its place. Flags: IGNORECASE unless the pattern says otherwise.
WORDS: Final[dict[str, str]] = {
    r"\b(?:give|gives|gave|given|giving|take|takes|took|taken|taking)(?: \w+)? away\b": "assigned, revoked",
    r"\banew\b": "recreated, again",
    r"\brepeats\b|\b(?:a|the|no|each|every) repeat\b|\brepeat it\b": "duplicate; repeatable",
    r"\bpass(?:es|ed|ing)?(?: \w+)? over\b": "skip",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\bgone\b": "removed, deleted, absent",
    r"\bstrangers?\b|\bnobody of ours\b|\bof nobody\b": "external",
    r"\b(?:say|says|said|saying|tell|tells|told|telling)\b": "print, report, list, name, state",
    r"\bmay not be looked at\b": "unauthorized",
    r"\bnobody (?:knows|(?:can|could) (?:tell|say|prove|see))\b": "unknown",
    r"(?<!\bthere )\bis no (?!longer\b|more\b|less\b|later\b)|(?-i:\bis none\b)": "invalid X: reason; is not a",
    r"\basks? to be spared\b": "throttled (503)",
    r"\bclear(?:s|ed|ing)? (?:\w+ )?up\b": "garbage collection",
    r"\bsew(?:s|n|ed|ing)?\b|\bseams?\b": "hook, patch",
    r"\b(?:short|long) way\b": "fast path, slow path",
    r"\baside\b|\b(?:stand|stands|stood|standing) by\b": "disabled, absent",
    r"\bli(?:fe|ves)\b(?! of an? (?:event|table write|snapshot|marker|record)\b)": "identity, lifetime",
    r"\blasting\b": "retention",
    r"\b(?:pre-)?looking\b(?! (?:at|for|up|back|it|them)\b)": "pre-flight",
    r"\bscreen(?:s|ed|ing)?\b": "pre-filter",
    r"\bpatience\b|\bpatient\b": "back-off",
    r"\bon (?:its|their) way\b": "in flight",
    r"(?-i:(?:^|(?<=[.;:!] ))(?:What|Who|Whom|Whoever|Whatever)\b)(?![^.]*\?)": "records that, anyone who, whether",
}
#: Names and values in a message or docstring: code spans, quoted words, names of arguments, columns of a schema.
_CODE: Final = r"`[^`\n]*`|\"\w+\"|^\s+\w+(?:, \w+)*:(?= )|\b\w+ bigint\b"
PATTERN: Final = {word: re.compile(word, re.IGNORECASE | re.MULTILINE) for word in WORDS}


#: Pages that still hold forbidden words, and how many. This list only shrinks.
ALLOWED: Final[dict[str, int]] = {}


class Found(NamedTuple):
    """A forbidden word at its place."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word!r}; use: {self.instead}"


def main(root: Path = ROOT, allowed: Mapping[str, int] | None = None) -> int:
    """Print each forbidden word on a line, except in files that may hold as many; return 1 if there is one.

    Args:
        allowed: file -> the forbidden words that it holds; other than that many are a problem. Default: `ALLOWED`.
    """
    allowed = ALLOWED if allowed is None else allowed
    found: dict[str, list[Found]] = {path: [] for path in allowed}
    for one in check(root):
        found.setdefault(one.path, []).append(one)
    failed = {path: some for path, some in found.items() if len(some) != allowed.get(path, 0)}
    for path, some in failed.items():
        for one in some:
            print(one, file=sys.stderr)
        if path in allowed:
            print(f"{path}: ALLOWED has {allowed[path]} forbidden words, found {len(some)}", file=sys.stderr)
    count = sum(map(len, found.values()))
    print(
        f"{GLOSSARY}: {count} forbidden words in messages, docstrings and docs, {sum(allowed.values())} allowed"
    )
    return 1 if failed else 0


def check(root: Path) -> Iterator[Found]:
    """Yield each forbidden word of the checkout at `root`."""
    for path in sorted(path for folder in SOURCES for path in (root / folder).rglob("*.py")):
        name = str(path.relative_to(root))
        for line, text in prose(path.read_text("utf-8")):
            yield from words(name, line, text)
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        name = str(path.relative_to(root))
        if name != GLOSSARY:
            yield from words(name, 1, plain(path.read_text("utf-8")))


def words(path: str, first: int, text: str) -> Iterator[Found]:
    """Yield the forbidden words of a text that begins at line `first`."""
    for word, pattern in PATTERN.items():
        for match in pattern.finditer(text):
            yield Found(path, first + text.count("\n", 0, match.start()), match[0], WORDS[word])


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of the docstrings and messages of a Python module, without code spans."""
    tree = ast.parse(source)
    inside = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            text = node.value
        else:
            continue
        if " " in text.strip():
            yield node.lineno, re.sub(_CODE, _blank, text, flags=re.MULTILINE)


def plain(page: str) -> str:
    """Return a page with code blocks, code spans and the targets of links blanked, line for line."""
    for code in (r"^(```+|~~~+).*?^\1", r"`[^`\n]*`", r"\]\([^)\n]*\)", r"<!--.*?-->"):
        page = re.sub(code, _blank, page, flags=re.MULTILINE | re.DOTALL)
    return page


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "_", match[0])


def rewrite(root: Path = ROOT) -> None:
    """Write what is found into `ALLOWED`; the diff shows whether it has shrunk."""
    counts = Counter(one.path for one in check(root))
    lines = "".join(f'\n    "{path}": {count},' for path, count in sorted(counts.items()))
    source = Path(__file__)
    text = re.sub(
        r"(?<=^ALLOWED: Final\[dict\[str, int\]\] = \{)[^}]*(?=\})",
        lines and f"{lines}\n",
        source.read_text("utf-8"),
        flags=re.MULTILINE,
    )
    source.write_text(text, "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--rewrite"]:
        rewrite()
    sys.exit(0 if sys.argv[1:] else main())
