"""The result of a soak run, for people and as JSON."""

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from .watch import MemoryTrend


@dataclass(slots=True)
class Report:
    """The figures of one run."""

    seed: int
    minutes: float
    place: str
    database: str
    users: int
    jobs_sent: int = 0
    jobs_accepted: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    pieces: int = 0
    servers_started: int = 0
    events: int = 0
    retries: int = 0
    fuzzed: int = 0
    comparisons: int = 0
    strikes: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    memory: MemoryTrend | None = None
    memory_limit_mib: float = 0.0
    machine: str = ""
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write `report.json` and `report.md` into the folder."""
        (folder / "report.json").write_text(json.dumps(asdict(self), indent=2))
        (folder / "report.md").write_text(self.describe())

    def describe(self) -> str:
        """Return the report as Markdown."""
        rows = [*self._figures(), *((f"trouble: {name}", str(count)) for name, count in sorted(self.strikes.items()))]
        rows += [(f"left out: {name}", why) for name, why in sorted(self.left_out.items())]
        table = "\n".join(f"| {name} | {value} |" for name, value in rows)
        faults = "\n".join(f"* {fault}" for fault in self.faults) or "No faults."
        return f"| What | Figure |\n|---|---|\n{table}\n\n{faults}\n"

    def _figures(self) -> list[tuple[str, str]]:
        ends = ", ".join(f"{count} {phase}" for phase, count in sorted(self.ends.items()))
        figures = [
            ("seed", str(self.seed)),
            ("minutes of load; seconds in all", f"{self.minutes:g}; {self.seconds:.0f}"),
            ("machine; place; database", f"{self.machine}; {self.place}; {self.database}"),
            ("users; notebook servers started", f"{self.users}; {self.servers_started}"),
            ("jobs sent; accepted", f"{self.jobs_sent}; {self.jobs_accepted}"),
            ("ends", ends),
            ("runs; pieces of output", f"{self.runs}; {self.pieces}"),
            ("requests tried again; events; fuzzed requests", f"{self.retries}; {self.events}; {self.fuzzed}"),
            ("comparisons of ledger and processes", str(self.comparisons)),
            ("troubles", str(sum(self.strikes.values()))),
        ]
        if self.memory is not None:
            figures.append(
                (
                    "memory of the service",
                    f"at most {self.memory.highest_mib:.0f} MiB of {self.memory_limit_mib:.0f} MiB; "
                    f"{self.memory.mib_per_hour:+.1f} MiB an hour over the last {self.memory.seconds / 60:.0f} minutes",
                )
            )
        return figures


def describe_machine() -> str:
    """Return cores, memory and load of this machine, and its Python."""
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, load {os.getloadavg()[0]:.0f}, Python {platform.python_version()}"
    )
