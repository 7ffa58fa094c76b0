"""A sentence that repeats only the beginning of a refused value shows that it does."""

import re
from pathlib import Path

#: A value that is cut without a sign, such as `{text[:60]!r}`; `quoted` and `shorten` end it with "…".
CUT = re.compile(r"\[:\w+\]!r")
ROOT = Path(__file__).parents[2]
#: Modules that a kernel starts with, and which import nothing of this package.
ALONE = {"jupyter_gq/notebook/kernel_startup.py"}


def test_no_value_of_a_sentence_is_cut_without_a_sign():
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / "jupyter_gq").rglob("*.py"))
        if path.relative_to(ROOT).as_posix() not in ALONE
        for line in path.read_text("utf-8").splitlines()
        if CUT.search(line)
    ]
    assert not found, "use quoted() of jupyter_gq.domain.plain_text"
