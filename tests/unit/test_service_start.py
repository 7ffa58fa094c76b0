"""The start of the service with a configuration file that cannot be used."""

import asyncio
import contextlib
import json
import logging

import pytest

from jupyter_gq.api.auth import HubAuthenticator
from jupyter_gq.api.listener import Listener
from jupyter_gq.backends.kubernetes import KubernetesBackend
from jupyter_gq.backends.local import LocalBackend
from jupyter_gq.backends.notifications.settings import Notifications
from jupyter_gq.controller.loop.store_outage import StoreOutage
from jupyter_gq.controller.settings.config_file import ConfigFileError
from jupyter_gq.controller.settings.last_good import LAST_GOOD, LastGood
from jupyter_gq.controller.settings.policy_changes import describe_changes
from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.demo.processes import free_port
from jupyter_gq.domain.errors import StoreUnavailable
from jupyter_gq.service import SchedulerService
from jupyter_gq.service_waits import wait_for_store
from jupyter_gq.start_sections import find_start_sections
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
    policy = PolicyFile(path, lambda: (a_node(2),), find_start_sections(SchedulerService))
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


def look(policy):
    """Look at the file as a running service does, until what is new in it is in force or refused."""

    async def refresh():
        for _ in range(3):
            await policy.refresh()

    asyncio.run(refresh())


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


UNFIT = [
    ("LocalBackend.max_uncounted_tasks = -1", "'max_uncounted_tasks' trait of a LocalBackend"),
    ("ServersBackend.attach_timeout = 'long'", "c.ServersBackend.attach_timeout = 'long': it is not a number"),
    ("ServiceConnections.max_connections = None", "c.ServiceConnections.max_connections = None"),
    ("SchedulerService.log_style = 'xml'", "'log_style' trait of a SchedulerService"),
    ("Notifications.min_minutes = 'few'", "c.Notifications.min_minutes = 'few': it is not a number from 0"),
]


@pytest.mark.parametrize(("line", "told"), UNFIT)
def test_the_service_starts_with_the_last_good_settings_if_a_part_refuses_its_own(place, line, told):
    place.write_text(f"{GOOD}c.{line}\nc.SimulatedDevices.needed = 7\n")
    service = started(place)
    assert service._trouble is None
    assert "SimulatedDevices" not in service.config, "nothing of the file is in force"
    policy = PolicyFile(place, lambda: (a_node(2),), service._sections(), service._stored, service._early)
    assert told in policy.error


@pytest.mark.parametrize(("line", "told"), UNFIT)
def test_a_running_service_says_what_its_next_start_would_refuse(place, line, told):
    policy = loaded(place)
    before = policy.last_good.to_document()
    place.write_text(f"{GOOD}c.{line}\n")
    look(policy)
    assert told in policy.error
    assert policy.last_good.to_document() == before


def test_a_kind_of_store_that_keeps_the_service_from_starting_is_refused_while_it_runs(place, monkeypatch):
    fit = GOOD.replace('"local"', '"kubernetes"')
    place.write_text(fit)
    policy = PolicyFile(place, tuple, started(place)._sections())
    place.write_text(f'{fit}c.KubernetesBackend.bundle_url = "unheard://bucket/folder"\n')
    look(policy)
    told = "KubernetesBackend.bundle_url is of a kind that is not known, 'unheard://'"
    assert told in policy.error
    monkeypatch.setenv("JUPYTER_GQ_STATE_DIR", str(place.parent / "new"))
    assert str(started(place)._trouble).startswith(f"{place}: {told}")


def test_a_refused_value_of_any_length_is_told_in_a_short_sentence(place):
    policy = loaded(place)
    place.write_text(f"{GOOD}c.LocalBackend.command = {{'x' * 100_000: 1}}\n")
    look(policy)
    assert "'command' trait of a LocalBackend" in policy.error
    assert len(policy.error) < 2000


def test_no_error_shows_the_password_of_the_database(place):
    policy = loaded(place)
    place.write_text(f"{GOOD}c.SchedulerService.database_url = ['postgresql://gq:hidden-word@host/gq']\n")
    look(policy)
    assert "c.SchedulerService.database_url is not" in policy.error
    assert "hidden-word" not in policy.error


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("c.LocalBackend.max_uncounted_tasks = -1\n", "--LocalBackend.max_uncounted_tasks=3"),
        (
            "c.Notifications.mail_server = 'mail'\nc.Notifications.mail_address = '{username}@example.org'\n",
            "--Notifications.mail_sender=gpu@example.org",
        ),
    ],
)
def test_what_the_command_line_mends_is_not_refused(place, text, option):
    place.write_text(GOOD + text)
    service = SchedulerService()
    service.initialize(["--config", str(place), option])
    policy = PolicyFile(place, lambda: (a_node(2),), service._sections(), None, service._early)
    assert policy.error is None
    place.write_text(f"{GOOD}{text}c.LocalBackend.mps_devices = 7\n")
    look(policy)
    assert "mps_devices" in policy.error, "what it does not mend is refused"


def test_a_file_that_is_refused_does_not_change_where_the_settings_were_found(place, tmp_path):
    store = SqlStore(f"sqlite:///{tmp_path / 'state' / 'service.sqlite'}")
    store.take_over()
    stored = store.setting(LAST_GOOD)
    stored["sections"]["SchedulerService"]["state_dir"] = str(tmp_path / "before the move")
    store.put_setting(LAST_GOOD, stored)
    store.close()
    place.write_text(f"{GOOD}c.SchedulerService.state_dir = {str(tmp_path / 'state')!r}\nc.FixedQuota.default = -1\n")
    service = started(place)
    assert service._stored.entries("TrainingQueues.queues") == {"vision"}
    assert service.state_dir == str(tmp_path / "state"), "the old folder has no database any more"


def test_a_look_at_the_file_leaves_the_log_of_the_process_as_it_is(place):
    place.write_text(GOOD + 'c.SchedulerService.log_level = "DEBUG"\n')
    own = logging.getLogger("SchedulerService")
    before = (own.level, own.handlers[:])
    assert loaded(place).error is None
    assert (own.level, own.handlers[:]) == before


def test_no_value_of_the_file_is_logged(place, caplog):
    place.write_text(GOOD + SECRET)
    with caplog.at_level(logging.DEBUG):
        started(place)
        loaded(place)
    assert "hidden-word" not in caplog.text


@pytest.mark.parametrize(
    "line",
    [
        "raise ValueError('in the middle')",
        "c.TrainingQueues.queues = {}",
        "c.FixedQuota.default = -1",
        "c.SchedulerService.backend = 'lokal'",
        "c.LocalBackend.max_uncounted_task = 1",
        "c.Notifications.mail_adress = 'x'",
    ],
)
def test_nothing_of_a_refused_file_is_in_force(place, line):
    changed = "c.SchedulerService.show_names = 'nobody'\nc.LocalBackend.max_uncounted_tasks = 77\n"
    place.write_text(f"{GOOD}{changed}{line}\n")
    service = started(place)
    assert (service.show_names, service.backend, service.check_invariants) == ("all", "local", True)
    assert LocalBackend(parent=service).max_uncounted_tasks != 77


def test_a_good_file_counts_before_what_is_stored(place):
    place.write_text(GOOD.replace("= True", "= False"))
    assert not started(place).check_invariants


def test_the_file_is_executed_once_for_the_service_and_for_the_policy(place, tmp_path):
    runs = tmp_path / "runs"
    made = f"Path({str(runs)!r}, str(os.getpid())).mkdir(parents=True)"
    place.write_text(f"import os\nfrom pathlib import Path\n{made}\n{GOOD}")
    service = SchedulerService()
    service.initialize(["--config", str(place), "--SchedulerService.check_invariants=False"])
    policy = PolicyFile(
        place, lambda: (a_node(2),), find_start_sections(SchedulerService), service._stored, service._early
    )
    assert policy.error is None, "a second execution in this process could not make the folder"
    assert len(list(runs.iterdir())) == 2, "the other one is that of the trial"
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


def test_a_value_that_cannot_be_copied_ends_the_start_with_a_sentence(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("JUPYTER_GQ_STATE_DIR", str(tmp_path / "state"))
    path = tmp_path / "jupyterhub_config.py"
    path.write_text('c.TrainingQueues.queues = {"a": {"quota": 1, "groups": {"x": 1}.keys()}}\n')
    service = started(path)
    with pytest.raises(SystemExit) as ended:
        service.start()
    assert ended.value.code == 1
    words = f"{path}, line 1: c.TrainingQueues.queues['a']['groups'] = dict_keys(['x']): a value of the type dict_keys"
    assert words in capfd.readouterr().err


def test_a_running_service_refuses_a_url_with_credentials_and_stores_nothing_of_it(place):
    policy = PolicyFile(place, lambda: (a_node(2),), find_start_sections(SchedulerService, KubernetesBackend))
    place.write_text(GOOD + 'c.KubernetesBackend.bundle_url = "s3://key:hidden-word@bucket"\n')
    look(policy)
    assert "c.KubernetesBackend.bundle_url = '…': the URL has credentials before \"@\"" in policy.error
    assert "hidden" not in policy.error + json.dumps(policy.last_good.to_document())
    place.write_text(GOOD + 'c.KubernetesBackend.bundle_url = "s3://bucket"\n')
    look(policy)
    assert policy.error is None
    assert policy.last_good.sections["KubernetesBackend"] == {"bundle_url": "s3://bucket"}


SECRET = """c.Notifications.webhook = "https://chat.example.org/hooks/hidden-word"
c.Notifications.webhook_headers = {"Authorization": "Bearer hidden-word"}
c.Notifications.mail_password = "hidden-word"
c.Notifications.min_minutes = 3
"""


def loaded(path, stored=None):
    return PolicyFile(path, lambda: (a_node(2),), SchedulerService()._sections(), stored)


def test_no_secret_of_the_notifications_is_stored_and_a_change_of_one_is_noticed(place):
    place.write_text(GOOD + SECRET)
    first = loaded(place).last_good
    document = json.dumps(first.to_document())
    assert "hidden-word" not in document
    stored = LastGood.from_document(json.loads(document))
    assert describe_changes(stored.sections, loaded(place, stored).last_good.sections) == []
    place.write_text(GOOD + SECRET.replace("hooks/hidden-word", "hooks/other-word"))
    changes = describe_changes(stored.sections, loaded(place, stored).last_good.sections)
    assert changes == ["c.Notifications.webhook: changed"]


def test_a_header_that_has_the_name_of_a_mark_is_not_taken_for_one(place):
    place.write_text(GOOD + 'c.Notifications.webhook_headers = {"mark of a secret": "hidden-word"}\n')
    first = loaded(place).last_good
    assert "hidden-word" not in json.dumps(first.to_document())
    place.write_text(GOOD + SECRET)
    assert loaded(place, first).error is None


def test_secrets_that_an_earlier_release_stored_are_not_kept():
    sections = {"Notifications": {"webhook": "https://chat.example.org/hooks/hidden-word"}}
    kept = LastGood.from_document({"sections": sections, "files": {}})
    assert "hidden-word" not in json.dumps(kept.to_document())
    assert kept.secret_sections == ("Notifications",)


def test_a_service_with_stored_settings_says_that_it_sends_no_notifications(place, tmp_path):
    place.write_text(GOOD + SECRET)
    store = SqlStore(f"sqlite:///{tmp_path / 'state' / 'service.sqlite'}")
    store.take_over()
    store.put_setting(LAST_GOOD, loaded(place).last_good.to_document())
    store.close()
    place.write_text(SECRET + "c.LocalBackend.env_keep = ['X']\nc.TrainingQueues.queues = {}\n")
    service = started(place)
    assert not {"Notifications", "LocalBackend"} & set(service.config), "nothing of a refused file is in force"
    assert Notifications(parent=service).rule().notifiers == ()

    async def read():
        with contextlib.closing(HubAuthenticator("http://hub", "")) as authenticator:
            listener = Listener(url="http://127.0.0.1:1", prefix="/gq/", authenticator=authenticator)
            return await service._read_policy(listener, lambda: (a_node(2),))

    [warning] = asyncio.run(read()).warnings
    assert warning.startswith("c.Notifications is not in force: ")


def test_a_running_service_refuses_a_checkpoint_url_with_credentials(place):
    place.write_text(GOOD + 'c.KubernetesBackend.checkpoint_url = "s3://key:hidden-word@bucket"\n')
    with pytest.raises(ConfigFileError, match="credentials before") as refused:
        PolicyFile(place, lambda: (a_node(2),), find_start_sections(SchedulerService, KubernetesBackend))
    assert "hidden" not in str(refused.value)


def test_a_database_that_goes_away_during_the_start_is_tried_again(monkeypatch, caplog):
    monkeypatch.setattr("jupyter_gq.service_waits._TRY_AGAIN", 0.01)
    answers = [StoreUnavailable("gq", "it starts"), StoreUnavailable("gq", "it starts"), "bundles"]

    def act():
        answer = answers.pop(0)
        if isinstance(answer, StoreUnavailable):
            raise answer
        return answer

    async def wait():
        address = f"http://127.0.0.1:{free_port()}"
        listener = Listener(url=address, prefix="/gq/", authenticator=HubAuthenticator("http://hub", ""))
        return await wait_for_store(listener, StoreOutage(), act)

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(wait()) == "bundles"
    assert answers == []


def test_a_form_of_the_log_that_no_start_can_use_is_refused_at_once(place):
    policy = PolicyFile(place, lambda: (a_node(2),), find_start_sections(SchedulerService))
    place.write_text(GOOD + "c.SchedulerService.log_format = '%(nope'\n")
    look(policy)
    assert f"{place}, line 5: c.SchedulerService.log_format = '%(nope': no log can have it" in policy.error
