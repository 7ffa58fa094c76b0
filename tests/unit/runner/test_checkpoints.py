"""The log of the copy of checkpoints says what changes, and not that all is well every minute."""

import logging
from dataclasses import replace
from pathlib import Path

from jupyter_gq.runner.pod.checkpoints import Checkpoints
from jupyter_gq.runner.pod.settings import read_settings


def test_only_failures_and_the_success_after_them_are_logged(tmp_path: Path, caplog) -> None:
    names = {"GQ_JOB_ID": "j", "GQ_RUN": "1", "GQ_SERVICE_URL": "http://127.0.0.1:9", "GQ_TOKEN_FILE": "/token"}
    copies = Checkpoints(replace(read_settings(names), checkpoint_every=60.0), tmp_path)
    with caplog.at_level(logging.INFO):
        for code in (0, 0, 1, 1, 0, 0):
            copies._record_exit(code)
    copies._stderr.close()
    assert [record.message for record in caplog.records] == [
        "The checkpoint could not be copied; trying again later: signal -1",
        "The checkpoint was copied after earlier failures.",
    ]
