"""Find prose that breaks the first rules of how we write (see CONTRIBUTING.md, "How we write").

`python -m tests.style.english [PATH ...]` prints each breach with its place and exits with 1 when there is one.

Rules
-----
headless: a docstring does not begin with a pronoun, a question word or a preposition.
pronoun: no later sentence of a docstring, and no sentence of a comment, begins with a bare pronoun.
TypeScript: in the lab extension these two hold for declarations, and the second one for fields and methods.
person: no text says "he", "she", "him", "her" or "his": people are "they", things are "it".
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.style.trees import list_nodes, list_nodes_of

ROOT = Path(__file__).parents[2]

#: A docstring that begins with one of these words has no verb, or no noun, that says what it is about.
_HEADLESS = """
it its itself who whom whose he his him she her they their one ones other others both those these that this such what
where when while of in for from by at to as with without until unless and or nothing nobody everybody everything all
each every
"""
HEADLESS = frozenset(_HEADLESS.split())
#: A sentence that begins with one of these words speaks of something that stands elsewhere.
_PRONOUNS = "it its itself who whom whose he his him she her those these both others ones"
PRONOUNS = frozenset(_PRONOUNS.split())
_PERSON = re.compile(r"\b(?:he|him|his|himself|she|her|hers|herself)\b", re.IGNORECASE)
_CODE = re.compile(r"``[^`]*``|`[^`]*`|\"[^\"\n]*\"|\{[^}]*\}|https?://\S+")
_SENTENCE = re.compile(r"(?:(?<=[.!?])\s+|\n\s*\n\s*|\n\s*(?:[-*]|\d+\.)\s+)(?=[A-Z])")
#: A comment, or a text in quotes, which may contain the sign of a comment.
_COMMENT_OR_TEXT = re.compile(
    r"""#[^\n]*|\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
#: A comment that documents a declaration of TypeScript; one with an indentation documents a field or a method.
_DECLARATION = re.compile(r"^([ \t]*)/\*\*(.*?)\*/", re.DOTALL | re.MULTILINE)
#: Files that speak to people and hold no Python.
_OTHER_SUFFIXES = frozenset({".ts", ".tsx", ".html", ".yaml", ".md", ".json", ".css", ".sh", ".toml", ".txt", ".tpl"})
#: The folder of the package, and that of the lab extension without its tests.
_PRODUCT = "jupyter_gq/"
_LAB = re.compile(r"labextension/src/(?!__tests__/)(?!wire\.ts)")
_LEFT_OUT = (
    "package-lock.json",
    "tests/docs/test_english.py",
    "tests/conformance/kai",
    "tests/style/",
    "examples/",
    "/fixtures/",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Breach:
    """One place that breaks a rule."""

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        """Return the breach as one line, as compilers write theirs."""
        return f"{self.path}:{self.line}: {self.rule}: {self.text[:110]}"


def breaches(paths: list[str]) -> Iterator[Breach]:
    """Yield the breaches in all tracked files below these paths; all of the repository when there is none."""
    for name in tracked(paths):
        if any(part in name for part in _LEFT_OUT):
            continue
        path = ROOT / name
        if not path.is_file():
            continue
        if path.suffix == ".py":
            nodes = list_nodes_of(path) if name.startswith(_PRODUCT) else None
            yield from in_python(name, path.read_text(encoding="utf-8"), nodes)
        elif path.suffix in _OTHER_SUFFIXES:
            yield from in_text(name, path.read_text(encoding="utf-8"))


def in_python(name: str, source: str, nodes: list[ast.AST] | None = None) -> Iterator[Breach]:
    """Yield the breaches of one Python file: in its docstrings, comments and other texts.

    `nodes`: those of its tree, where they are known.
    """
    product = name.startswith(_PRODUCT)
    docstrings: set[int] = set()
    for node in nodes or (nodes := list_nodes(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node)
            if text is not None:
                docstrings.add(id(node.body[0].value))  # type: ignore[attr-defined]
                line = node.body[0].lineno
                if product:
                    yield from _in_docstring(name, line, text)
                yield from _persons(name, line, text)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from _persons(name, node.lineno, node.value)
    for line, text in _comments(source):
        yield from _persons(name, line, text)
        if product and _first_word(text) in PRONOUNS:
            yield Breach(path=name, line=line, rule="pronoun", text=text)


def in_text(name: str, text: str) -> Iterator[Breach]:
    """Yield the persons of a file that is not Python, and the breaches in the documentation of the lab extension."""
    for number, line in enumerate(text.splitlines(), 1):
        yield from _persons(name, number, line)
    if _LAB.match(name):
        for found in _DECLARATION.finditer(text):
            words = re.sub(r"^ *\* ?", "", found[2], flags=re.MULTILINE).strip()
            begin = PRONOUNS if found[1] else HEADLESS
            yield from _in_docstring(name, text.count("\n", 0, found.start()) + 1, words, begin)


def _in_docstring(name: str, line: int, text: str, headless: frozenset[str] = HEADLESS) -> Iterator[Breach]:
    first, *others = _SENTENCE.split(text)
    if _first_word(first) in headless:
        yield Breach(path=name, line=line, rule="headless", text=_one_line(first))
    for sentence in others:
        if _first_word(sentence) in PRONOUNS:
            yield Breach(path=name, line=line, rule="pronoun", text=_one_line(sentence))


def _persons(name: str, line: int, text: str) -> Iterator[Breach]:
    if _PERSON.search(text) and _PERSON.search(_CODE.sub("", text)):
        yield Breach(path=name, line=line, rule="person", text=_one_line(text))


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments, those on lines that follow each other as one, with the number of the first line."""
    begun, words = 0, ""
    last, line, at = -1, 1, 0
    for found in _COMMENT_OR_TEXT.finditer(source):
        if not found[0].startswith("#"):
            continue
        line, at = line + source.count("\n", at, found.start()), found.start()
        alone = not source[source.rfind("\n", 0, at) + 1 : at].strip()
        text = found[0].lstrip("#:! ").strip()
        if alone and line == last + 1:
            words = f"{words} {text}"
        else:
            if words:
                yield begun, words
            begun, words = line, text
        last = line if alone else -1
    if words:
        yield begun, words


def _first_word(text: str) -> str:
    # A sentence that begins with code or a quotation has a subject.
    found = _WORD.match(text.strip())
    return found[0].lower() if found else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def tracked(paths: list[str]) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *paths], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return sorted(name for name in listed.split("\0") if name)


def main() -> int:
    """Print the breaches below the paths of the command line; return 1 when there is one."""
    found = list(breaches(sys.argv[1:]))
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
