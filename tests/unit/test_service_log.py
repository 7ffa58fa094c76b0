"""The log of the service: lines for people, or one JSON object on each line with the ids."""

import json
import re
import subprocess
import sys

import pytest

from tests.patience import scaled

SAY = """
import logging
from jupyter_gq.service import SchedulerService
from tests.builders import a_job, a_notebook
service = SchedulerService(log_style={style!r})
service.configure_log()
log = logging.getLogger("jupyter_gq.controller.anything")
log.info("%s waits", "job-1", extra=a_job("digits", "vision", id="job-1", owner="ann").log_fields)
log.warning("line\\nline", extra=a_notebook("ann", name="lab", id="nb-1").log_fields)
service.log.critical("It cannot start.")
logging.getLogger("other.library").info("chatter")
logging.getLogger("other.library").warning("trouble")
log.debug("details")
try:
    raise OSError("broken")
except OSError:
    log.exception("a step failed")
"""


@pytest.fixture(scope="module")
def said():
    """Return the lines of the log by style."""
    processes = {
        style: subprocess.Popen(
            [sys.executable, "-c", SAY.format(style=style)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for style in ("text", "json")
    }
    found = {}
    for style, process in processes.items():
        out, err = process.communicate(timeout=scaled(120))
        assert (process.returncode, out) == (0, ""), err
        found[style] = err.splitlines()
    return found


def test_people_read_level_time_and_part(said):
    assert re.fullmatch(
        r"\[I \d{4}-\d\d-\d\d \d\d:\d\d:\d\d jupyter_gq\.controller\.anything\] job-1 waits", said["text"][0]
    )
    assert said["text"][-1] == "OSError: broken"


def test_programs_read_one_object_per_line_with_time_level_and_ids(said):
    records = [json.loads(line) for line in said["json"]]
    waits, notebook, start, other, failed = records
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00", waits.pop("time"))
    assert waits == {
        "level": "INFO",
        "logger": "jupyter_gq.controller.anything",
        "message": "job-1 waits",
        "workload": "job-1",
        "run": 0,
        "user": "ann",
        "queue": "vision",
    }
    assert (notebook["workload"], notebook["user"], notebook["message"]) == ("nb-1", "ann", "line\nline")
    assert notebook["server"] == "lab"
    assert (start["level"], start["message"]) == ("CRITICAL", "It cannot start.")
    assert (other["logger"], other["message"]) == ("other.library", "trouble")
    assert failed["traceback"].endswith("OSError: broken")
