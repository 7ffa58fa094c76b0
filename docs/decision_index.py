"""The decisions of `docs/decisions`, read from the head of each page, and their index by room."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DECISIONS = Path(__file__).parent / "decisions"
#: Each relation of one decision to another, and the name of the same relation on the other page.
RELATIONS = {
    "Supersedes": "Superseded by",
    "Superseded by": "Supersedes",
    "Amends": "Amended by",
    "Amended by": "Amends",
}
STATUSES = ("proposed", "accepted", "superseded")
_FIELDS = {"Status", "Date", "Rooms", *RELATIONS}


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """One decision page, as its title and the list below the title describe it."""

    #: Name of the file in `docs/decisions`.
    file: str
    number: int
    #: The choice, without the number.
    title: str
    #: One of `STATUSES`.
    status: str
    #: Year and month of the decision, such as 2026-11.
    date: str
    #: Folders that follow from the decision, below `jupyter_gq/` or, if there is none of that name, below the root.
    rooms: tuple[str, ...]
    #: Files of other decisions, by relation.
    related: dict[str, tuple[str, ...]]


def read_decision(page: Path) -> Decision:
    """Return the decision on a page; raise ValueError if its head is not complete."""
    text = page.read_text()
    heading = re.match(r"# (\d+)\. (.+)\n\n((?:\* .+\n)+)", text)
    if heading is None:
        raise ValueError(f"{page.name}: the page begins with '# NUMBER. TITLE' and a list of fields")
    fields = dict(re.findall(r"^\* ([A-Z][a-z ]+): (.+)$", heading[3], re.MULTILINE))
    if not {"Status", "Date", "Rooms"} <= fields.keys() <= _FIELDS:
        raise ValueError(f"{page.name}: the fields are Status, Date, Rooms and, if they apply, {', '.join(RELATIONS)}")
    if fields["Status"] not in STATUSES:
        raise ValueError(f"{page.name}: the status is one of {', '.join(STATUSES)}, not {fields['Status']}")
    return Decision(
        file=page.name,
        number=int(heading[1]),
        title=heading[2],
        status=fields["Status"],
        date=fields["Date"],
        rooms=tuple(re.findall(r"`([^`]+)`", fields["Rooms"])),
        related={name: tuple(re.findall(r"\]\(([^)]+)\)", fields[name])) for name in RELATIONS if name in fields},
    )


def read_decisions() -> list[Decision]:
    """Return all decisions in the order of their numbers."""
    return [read_decision(page) for page in sorted(DECISIONS.glob("[0-9]*.md"))]


def decision_index() -> str:
    """Return the index page: a table of decisions for each room, with status and relations."""
    decisions = read_decisions()
    rooms = sorted({room for decision in decisions for room in decision.rooms})
    return "".join([_INTRODUCTION, *(_room_section(room, decisions) for room in rooms), _table_of_contents(decisions)])


_INTRODUCTION = """# Decisions

Each page records one choice that had an alternative: its context, the decision, the alternatives and why they were not
taken, the consequences, and what would prove the decision wrong. A missing number was never used. Rooms are folders of
`jupyter_gq/` or of the repository. A decision that concerns several rooms is listed under each.
"""


def _room_section(room: str, decisions: list[Decision]) -> str:
    rows = [_row(decision) for decision in decisions if room in decision.rooms]
    return f"\n## `{room}`\n\n| | Decision | Status | Date |\n|---|---|---|---|\n{''.join(rows)}"


def _row(decision: Decision) -> str:
    status = "; ".join([decision.status, *_relations(decision)])
    date = decision.date.replace("-", "&#8209;")  # a hyphen at which the narrow column does not break
    return f"| {decision.number} | [{decision.title}]({decision.file}) | {status} | {date} |\n"


def _relations(decision: Decision) -> Iterator[str]:
    for relation, files in decision.related.items():
        yield f"{relation.lower()} {', '.join(f'[{int(file[:4])}]({file})' for file in files)}"


def _table_of_contents(decisions: list[Decision]) -> str:
    entries = "".join(f"{decision.file.removesuffix('.md')}\n" for decision in decisions)
    return f"\n```{{toctree}}\n:hidden:\n\n{entries}```\n"
