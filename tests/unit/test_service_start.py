"""The start of the service with a configuration file that cannot be used."""

import pytest

from jupyter_gq.controller.settings.last_good import LAST_GOOD
from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.service import SchedulerService, names_by_section
from jupyter_gq.store.sql import SqlStore
from tests.fakes import a_node

GOOD = """c = get_config()  # noqa
c.SchedulerService.check_invariants = True
c.SchedulerService.backend = "local"
c.TrainingQueues.queues = {"vision": {"quota": 1}}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A configuration file, and a database in which an earlier service has kept its settings."""
    path = tmp_path / "jupyterhub_config.py"
    path.write_text(GOOD)
    policy = PolicyFile(path, lambda: (a_node(2),), names_by_section())
    store = SqlStore(f"sqlite:///{tmp_path / 'state' / 'service.sqlite'}")
    store.take_over()
    store.put_setting(LAST_GOOD, policy.last_good.to_document())
    store.close()
    monkeypatch.setenv("JUPYTER_GQ_STATE_DIR", str(tmp_path / "state"))
    return path


def started(path):
    service = SchedulerService()
    service.initialize(["--config", str(path)])
    return service


@pytest.mark.parametrize("text", ["def x(:", "", "c.FixedQuota.default = '0.25'\n", "raise SystemExit(3)", None])
def test_the_service_has_the_last_good_settings_of_every_section(place, text):
    if text is None:
        place.unlink()
    else:
        place.write_text(text)
    service = started(place)
    assert service.check_invariants
    assert service._stored is not None
    assert service._stored.entries("TrainingQueues.queues") == {"vision"}


def test_a_value_that_the_service_refuses_is_replaced_too(place):
    place.write_text(GOOD.replace('"local"', '"lokal"'))
    service = started(place)
    assert (service.backend, service._trouble) == ("local", None)


def test_a_good_file_counts_before_what_is_stored(place):
    place.write_text(GOOD.replace("= True", "= False"))
    assert not started(place).check_invariants


def test_the_file_is_executed_once_for_the_service_and_for_the_policy(place, tmp_path):
    runs = tmp_path / "runs"
    place.write_text(f"from pathlib import Path\nruns = Path({str(runs)!r})\nruns.mkdir(exist_ok=False)\n" + GOOD)
    service = SchedulerService()
    service.initialize(["--config", str(place), "--SchedulerService.check_invariants=False"])
    policy = PolicyFile(place, lambda: (a_node(2),), names_by_section(), service._stored, service._early)
    assert policy.error is None, "a second execution could not make the folder"
    assert policy.config.SchedulerService.check_invariants, "the command line is not part of the file"


def test_the_command_line_counts_before_both(place):
    place.write_text("")
    service = SchedulerService()
    service.initialize(["--config", str(place), "--SchedulerService.check_invariants=False"])
    assert not service.check_invariants


def test_without_stored_settings_a_bad_file_ends_the_start_with_a_sentence(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("JUPYTER_GQ_STATE_DIR", str(tmp_path / "state"))
    path = tmp_path / "jupyterhub_config.py"
    path.write_text('c.SchedulerService.backend = "lokal"\n')
    service = started(path)
    assert not (tmp_path / "state").exists(), "looking for stored settings makes no database"
    with pytest.raises(SystemExit) as ended:
        service.start()
    assert ended.value.code == 1
