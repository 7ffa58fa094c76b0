"""Process 1 of a training pod: fetches the job, runs the runner as its child, and leaves word of how it ended.

Order: SIGTERM is heard from the first instant on; the pod's token is exchanged; the files are laid out; the runner
runs, and what its processes print goes to the container's log and its end to the service; what is left of them is
ended; the checkpoint and the log are sent; the result lies where Kubernetes looks for it.

The runner is the same program as on one machine, in a process of its own: whatever becomes of it or of the user's
code, somebody is left to say so.
"""

import os
import traceback
from pathlib import Path
from typing import Any

from jupyter_gq.runner.problems import RunError

from .sigterm import Halt, Halted
from .termination_message import leave_word


def run_pod() -> int:
    """Run the task that the environment describes; 0 when its cells ran or it was paused."""
    halt = Halt()
    halt.install()
    result = _guarded(halt)
    halt.defer()  # what is left is done in a moment
    print(f"{result['outcome']} {result['sentence']}".strip(), flush=True)  # noqa: T201 - standard output is the log
    place = os.environ.get("GQ_TERMINATION_LOG")
    leave_word(Path(place) if place else None, result)
    return 0 if result["outcome"] in {"SUCCEEDED", "PAUSED"} else 1


def _guarded(halt: Halt) -> dict[str, Any]:
    try:
        from .run import run_task  # here: whoever asks us to end is heard while it is imported

        return run_task(halt)
    except Halted:
        return {"outcome": "PAUSED", "sentence": "It was told to end before it had begun."}
    except RunError as error:
        return {"outcome": "FAILED", "sentence": str(error)}
    except Exception as error:  # noqa: BLE001 - the last guard: whatever happens, the owner gets a sentence
        traceback.print_exc()
        sentence = f"The runner itself failed ({type(error).__name__}: {error}); the log has more."
        return {"outcome": "FAILED", "sentence": sentence}
