"""Every case of every file of a folder, and what came of it."""

import json
from collections.abc import Iterator
from pathlib import Path

from jupyter_gq.domain.errors import JupyterGQError

from . import reasons, runtimes, shares
from .play import has_step, play
from .verdict import Case, Difference, Untranslatable, Verdict

#: Cases of share division, reclaim decision and least run time have no tier of their own.
FIRST_TIER = 1


def run_folder(folder: Path) -> list[Verdict]:
    """All verdicts, in the order of the files' names and of the cases in them."""
    return [verdict for path in sorted(folder.glob("*.json")) for verdict in run_file(path)]


def run_file(path: Path) -> Iterator[Verdict]:
    """The verdicts of one file."""
    table = json.loads(path.read_text(encoding="utf-8"))
    for number, case in enumerate(table.get("cases", [])):
        # The cases of least run times share the queues and defaults of their file.
        whole = {**case, "queues": table["queues"], "defaults_s": table["defaults_s"]} if "method" in case else case
        yield run_case(whole, path.name, case.get("id") or case.get("name") or f"{path.stem}#{number:03d}")


def run_case(case: Case, file: str, name: str) -> Verdict:
    """Decide, compare, and find the reasons of what is other than expected."""
    differences, elsewhere = _decide(case)
    return Verdict(
        file=file,
        tier=int(case.get("tier") or FIRST_TIER),
        id=name,
        differences=tuple(differences),
        elsewhere=elsewhere,
        no_step=not has_step(case),
        reasons=reasons.explain(case, differences, _differences) if differences else (),
    )


def _differences(case: Case) -> list[Difference]:
    return _decide(case)[0]


def _decide(case: Case) -> tuple[list[Difference], int]:
    try:
        if "procedure" in case:
            return play(case)
        if "method" in case:
            return runtimes.decide(case), 0
        return shares.decide(case), 0
    except (Untranslatable, JupyterGQError) as error:
        return [Difference(what="the case", expected="can be translated", ours=str(error))], 0
