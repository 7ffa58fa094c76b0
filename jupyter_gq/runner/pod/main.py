"""Process 1 of a training pod: it fetches the job, runs the runner as its child, and reports the result.

Order: SIGTERM is handled from the first instant on. The pod's token is exchanged, and the files are written. The
runner runs; the output of its processes goes to the container's log, and the end of that log to the service. Then the
remaining processes are killed, and the checkpoint and the log are sent. The result is written as the termination
message.

The runner is the same program as on one machine, in a process of its own: process 1 can report the result even if the
runner or the user's code is killed. See docs/decisions/0028-run-the-runner-under-process-1.md.
"""

import os
import traceback
from pathlib import Path

from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.problems import RunError

from .sigterm import SigtermHandler, StoppedBeforeStart
from .termination_message import write_termination_message


def run_pod() -> int:
    """Run the task that the environment describes, and write its result as the termination message.

    Returns 0 if its cells ran or it was paused, else 1.
    """
    sigterm = SigtermHandler()
    sigterm.install()
    result = _run_guarded(sigterm)
    sigterm.defer_signals()  # the rest takes only a moment
    print(f"{result['outcome']} {result['sentence']}".strip(), flush=True)  # noqa: T201 - standard output is the log
    place = os.environ.get("GQ_TERMINATION_LOG")
    write_termination_message(Path(place) if place else None, result)
    return 0 if result["outcome"] in {"SUCCEEDED", "PAUSED"} else 1


def _run_guarded(sigterm: SigtermHandler) -> JsonObject:
    """Run the task; return its result, also for errors: PAUSED after an early stop, FAILED for any other error."""
    try:
        from .run import run_task  # imported here, where a SIGTERM during the import is handled

        return run_task(sigterm)
    except StoppedBeforeStart:
        return {"outcome": "PAUSED", "sentence": "The job was told to stop before it had started."}
    except RunError as error:
        return {"outcome": "FAILED", "sentence": str(error)}
    except Exception as error:  # noqa: BLE001 - the last guard: the owner gets a sentence after any error
        traceback.print_exc()
        sentence = f"The runner itself failed ({type(error).__name__}: {error}); the log has more."
        return {"outcome": "FAILED", "sentence": sentence}
