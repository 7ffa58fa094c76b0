"""The program `jupyter-gq agent`, which sends itself a signal after a step of a suspension, and whose clock is set.

The folder in `STOPPING_AGENT` has the files `<STEP>.<signal>`, each for one signal, and `clock`, the seconds by which
the wall clock of the agent is wrong.
"""

import os
import time
from pathlib import Path

from jupyter_gq.agent.app import NodeAgent
from jupyter_gq.devices import choose
from jupyter_gq.devices.suspension.journal import FileJournal

FOLDER = Path(os.environ["STOPPING_AGENT"])


class JournalOfAnAgentThatStops(FileJournal):
    """A journal whose agent is stopped or killed right after a step was noted."""

    def write(self, entry):
        super().write(entry)
        for order in FOLDER.glob(f"{entry.step}.*"):
            order.unlink()
            os.kill(os.getpid(), int(order.suffix[1:]))


def read_clock(right=time.time):  # noqa: TID251 - the clock that is set
    try:
        return right() + float((FOLDER / "clock").read_text())
    except FileNotFoundError:
        return right()


if __name__ == "__main__":
    choose.FileJournal = JournalOfAnAgentThatStops
    time.time = read_clock  # noqa: TID251 - the clock that is set
    NodeAgent.launch_instance()
