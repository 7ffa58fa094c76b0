"""The table that every benchmark prints, and its JSON form."""

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One figure of one case. `peer` and `goal` are None where there is none."""

    case: str
    figure: str
    unit: str
    ours: float
    peer: float | None = None
    goal: float | None = None
    #: Which side of the goal is good.
    wants: Literal["less", "more"] = "less"

    @property
    def misses(self) -> bool:
        """Whether there is a goal and the figure does not reach it."""
        if self.goal is None:
            return False
        return not (self.ours <= self.goal if self.wants == "less" else self.ours >= self.goal)  # nan reaches none


def parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options that all benchmarks share."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", type=Path, metavar="FILE", help="also write the rows as a JSON list")
    return made


def show(title: str, rows: list[Row], file: Path | None) -> int:
    """Print the rows as a table, and write them to `file`. Return the exit status: 1 if a goal is missed, else 0."""
    print(f"\n{title}\n")
    print(f"  {'case':<44} {'figure':<25} {'unit':<6} {'ours':>9} {'peer':>9} {'ours/peer':>9} {'goal':>9}")
    for row in rows:
        ratio = row.ours / row.peer if row.peer else None
        cells = " ".join(f"{_number(value):>9}" for value in (row.ours, row.peer, ratio, row.goal))
        print(f"  {row.case:<44} {row.figure:<25} {row.unit:<6} {cells}{'  missed' if row.misses else ''}")
    if file:
        file.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return int(any(row.misses for row in rows))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
