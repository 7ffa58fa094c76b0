"""What a test changes in its process is put back for the next one, which may be any other."""

import gc
import logging
import os
import signal
import sys

import pytest

from jupyter_gq.agent.app import NodeAgent
from jupyter_gq.controller.loop.interpreter import set_the_interpreter
from jupyter_gq.service import SchedulerService
from tests.process_state import kept_process_state


def read_umask():
    before = os.umask(0)
    os.umask(before)
    return before


def read_state():
    log = logging.getLogger("jupyter_gq")
    return {
        "umask": read_umask(),
        "records": logging.getLogRecordFactory(),
        "log": (log.parent, log.level, log.disabled, log.propagate, list(log.handlers)),
        "root": list(logging.getLogger().handlers),
        "interpreter": (gc.get_threshold(), sys.getswitchinterval()),
        "signals": [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)],
        "environment": dict(os.environ),
    }


def start_a_service_that_cannot_start(tmp_path):
    config = tmp_path / "jupyterhub_config.py"
    config.write_text('c.SchedulerService.backend = "lokal"\n')
    service = SchedulerService()
    service.initialize(["--config", str(config), f"--SchedulerService.state_dir={tmp_path / 'state'}"])
    with pytest.raises(SystemExit):
        service.start()


@pytest.mark.parametrize(
    "change",
    [
        start_a_service_that_cannot_start,
        lambda _: NodeAgent().initialize([]),
        lambda _: set_the_interpreter(),
        lambda _: signal.signal(signal.SIGTERM, lambda *_: None),
        lambda _: os.environ.update(GQ_OF_A_TEST="1", PATH="/nowhere"),
        lambda _: os.environ.pop("PATH"),
        lambda _: logging.getLogger().addHandler(logging.NullHandler()),
    ],
    ids=["service", "agent", "interpreter", "signal", "variables", "variable", "handler"],
)
def test_what_code_changes_in_the_process_is_put_back(tmp_path, change):
    before = read_state()
    with kept_process_state():
        change(tmp_path)
        assert read_state() != before, "the test changes nothing"
    assert read_state() == before
