"""Stands in for the runner, or for a notebook server: does what the file `plan` of its folder says.

`standin.py FOLDER [--run N --task I]`. It writes `ready` when it has begun, into the run's folder if there is one.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

folder = Path(sys.argv[1])
plan = json.loads((folder / "plan").read_text())
place = folder
if "--run" in sys.argv:
    run, task = sys.argv[sys.argv.index("--run") + 1], sys.argv[sys.argv.index("--task") + 1]
    place = folder / "runs" / run / task
    plan = plan.get(f"task {task}", plan)


def end(outcome, sentence=""):
    # As the runner does: nobody ever reads half of it.
    (place / "result.new").write_text(json.dumps({"outcome": outcome, "sentence": sentence, "finished_at": 0}))
    (place / "result.new").replace(place / "result.json")
    sys.exit(0)


def started(process):
    """Its end is not waited for: it outlives us."""
    process.returncode = 0
    (place / "child").write_text(str(process.pid))


if plan.get("ignores stop"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: end("PAUSED"))
if plan.get("has kernel"):
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()"
    started(subprocess.Popen([sys.executable, "-c", code], start_new_session=True))
if plan.get("leaves daemon"):
    started(subprocess.Popen(["/bin/sleep", "1000"], env={}, start_new_session=True))
(place / "environment").write_text(json.dumps(dict(os.environ)))
(place / "cwd").write_text(os.getcwd())
print("standin is here", flush=True)
(place / "ready").write_text(str(os.getpid()))
if plan.get("says"):
    end(plan["says"], plan.get("sentence", ""))
if plan.get("exits"):
    os._exit(plan["exits"])
while True:
    time.sleep(0.05)  # `signal.pause` would miss a signal that comes right before it
