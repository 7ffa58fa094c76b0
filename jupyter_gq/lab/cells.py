"""What can be said of a cell's source before it runs. For Python kernels only: other languages are not checked."""

import ast
import re
import sys
import warnings
from dataclasses import dataclass

#: Longest part of a line that is shown in a message.
SHOWN = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A source that Python cannot read."""

    message: str
    #: From 1, in the cell as it is written; None when unknown.
    line: int | None
    #: That line.
    text: str

    @property
    def sentence(self) -> str:
        """For the dialog: what is wrong and where."""
        where = f" in line {self.line}" if self.line else ""
        shown = self.text.strip()
        shown = shown if len(shown) <= SHOWN else shown[: SHOWN - 1] + "…"
        return f"{self.message}{where}" + (f": {shown}" if shown else "")


def title(source: str) -> str:
    """The first line that says something; a comment only when there is nothing else."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    said = next((line for line in lines if not line.startswith("#")), lines[0] if lines else "")
    return said if len(said) <= SHOWN else said[: SHOWN - 1] + "…"


def does_nothing(source: str, python: bool) -> bool:
    """Empty; for Python also when there are only comments."""
    lines = [line.strip() for line in source.splitlines()]
    return all(not line or (python and line.startswith("#")) for line in lines)


def find_fault(source: str) -> Fault | None:
    """Why IPython could not run this, or None. Magics, `!` commands, `?` and top-level `await` are all fine."""
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as an invalid escape: no concern of ours
            code = TransformerManager().transform_cell(source)  # type: ignore[no-untyped-call]
            compile(code, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError) as error:
        return _fault(error, source)
    return None


def warm_up() -> None:
    """Import what `find_fault` needs, so that the first click need not wait for it."""
    find_fault("")


def _fault(error: SyntaxError | ValueError, source: str) -> Fault:
    line = getattr(error, "lineno", None)
    lines = source.splitlines()
    if line is not None and not 1 <= line <= len(lines):
        line = None
    message = getattr(error, "msg", None) or str(error)
    return Fault(message=message, line=line, text=lines[line - 1] if line else "")


def newer_python(version: str) -> bool:
    """A kernel of this version may know syntax that this server's Python does not. Unknown counts as the same."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) > sys.version_info[:2]


#: Pattern, code and message of what is worth a warning in a cell that will run unattended.
_RISKS = (
    (
        re.compile(r"(?<![.\w])(?:input|getpass\.getpass|getpass)\s*\("),
        "asks_for_input",
        "asks for input; nobody can answer it there, so it will fail",
    ),
    (
        re.compile(r"^\s*[%!]\s*(?:\w+\s+-m\s+)?(?:pip3?|uv\s+pip|conda|mamba)\s+install\b", re.MULTILINE),
        "installs_packages",
        "installs packages; it does so in every run, into the same environment",
    ),
    (
        re.compile(r"^\s*%%?(?:script|bash|sh|system|sx|writefile|store|rm|mv)\b|^\s*!", re.MULTILINE),
        "acts_outside",
        "runs commands or writes files; it does so again",
    ),
)


def risks(source: str) -> list[tuple[str, str]]:
    """(code, message) of each thing that behaves differently, or a second time, when nobody watches."""
    return [(code, message) for pattern, code, message in _RISKS if pattern.search(source)]
