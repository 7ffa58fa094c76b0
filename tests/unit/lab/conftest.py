"""A search for files of a job ends after seconds of the product: no time passes here, however slow the machine is."""

import pytest


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch):
    monkeypatch.setattr("jupyter_gq.lab.project.needed.monotonic", lambda: 0.0)
