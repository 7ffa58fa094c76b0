"""`jupyter-gq replay`: decide again on a written state, and show where this version decides differently."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.client.state import decision_document
from jupyter_gq.domain.json_types import JsonMapping
from jupyter_gq.scheduling.cycle import run_cycle

from .files import counted, load_state

Document = JsonMapping


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq replay`."""
    parser.add_argument(
        "state", type=Path, metavar="SNAPSHOT.json", help="state file, written by `jupyter-gq snapshot`"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print how a new decision on the state differs from the recorded one; return 1 if it differs, and 0 otherwise.

    Raises `CommandRefused` if the state file cannot be used.
    """
    file = load_state(arguments.state)
    state = file.state
    decided = decision_document(run_cycle(state.snapshot, state.policy, state.at))
    found = differences(file.decision, decided)
    for line in found:
        print_plain(line)
    asked = (
        counted(len(decided["instructions"]), "instruction") + ", " + counted(len(decided["pending"]), "explanation")
    )
    print(f"{counted(len(found), 'difference')} ({asked})." if found else f"The same decision ({asked}).")
    return 1 if found else 0


def differences(then: Document, now: Document) -> list[str]:
    """Return one line for each workload on which the two decisions differ, in order of ids."""
    before, after = _said(then), _said(now)
    return [
        f"{workload}: was {_text(before.get(workload))}; is {_text(after.get(workload))}"
        for workload in sorted({*before, *after})
        if before.get(workload) != after.get(workload)
    ]


def _said(decision: Document) -> dict[str, list[Document]]:
    """Return the instructions and explanations of a decision by id of the workload."""
    said: dict[str, list[Document]] = {}
    for entry in [*decision["instructions"], *decision["pending"]]:
        said.setdefault(str(entry.get("workload")), []).append(entry)
    return said


def _text(entries: list[Document] | None) -> str:
    """Return what a decision says of one workload as a phrase; "nothing" for None."""
    return " and ".join(_one(entry) for entry in entries) if entries else "nothing"


def _one(entry: Document) -> str:
    """Return one instruction or explanation as a phrase."""
    why = entry.get("why")
    if isinstance(why, Mapping):
        return f"pending at {entry.get('position')} ({why.get('reason')}: {why.get('sentence')})"
    facts = {key: value for key, value in entry.items() if key not in {"do", "workload", "sentence"}}
    return f"{entry.get('do')} {facts}"
