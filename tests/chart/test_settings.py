"""The settings that the chart writes are settings that exist, and say what the values said."""

import re

import pytest
from traitlets.config import Config

from jupyter_gq.backends.kubernetes.settings import KubernetesBackend
from jupyter_gq.controller.settings import sections as ours
from jupyter_gq.controller.settings.config_file import ConfigFileError, ExecutedFiles, load_config
from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.controller.settings.queues import KEYS
from jupyter_gq.hub.mixin import GPUShareMixin
from jupyter_gq.service import SchedulerService
from jupyter_gq.start_sections import find_start_sections
from tests.chart.render import EXAMPLES, named, objects, schema

#: Which values are which settings.
SECTIONS = {
    "fixedQuota": ours.FixedQuota,
    "queueing": ours.TrainingQueues,
    "poolUse": ours.Pools,
    "idle": ours.IdlePolicy,
    "fairness": ours.Fairness,
    "longWaits": ours.LongWaits,
    "placement": ours.Placement,
    "auditLog": ours.AuditLog,
}


def folder(found, tmp_path, monkeypatch):
    """The files as they are mounted in the service's pod; the entry."""
    for name in ("gq-gq-hub", "gq-gq-service"):
        for key, text in named(found, "ConfigMap", name)["data"].items():
            (tmp_path / key).write_text(text)
    monkeypatch.delenv("JUPYTER_GQ_DATABASE_URL", raising=False)
    monkeypatch.setenv("JUPYTER_GQ_STATE_DIR", "/state")
    return tmp_path / "jupyterhub_config.py"


def snake(word):
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in word)


def test_a_home_that_is_unset_is_no_home(tmp_path, monkeypatch):
    config = load_config(folder(objects({"training": {"homeVolume": None}}), tmp_path, monkeypatch), ExecutedFiles())
    assert config.KubernetesBackend.home_volume == {}


@pytest.mark.parametrize("section", SECTIONS)
def test_the_values_of_a_section_are_its_settings(section):
    cls = SECTIONS[section]
    written = {snake(key) for key in schema()["properties"][section]["properties"]}
    # Entries by name are values of their own. On a cluster pods have limits of disk, nothing is suspended, and pools
    # have no fixed size.
    elsewhere = {
        "TrainingQueues": {"queues", "max_job_disk", "max_user_disk", "suspend"},
        "Pools": {"pools", "over_subscription"},
    }.get(cls.__name__, set())
    assert written == {name for name in cls.class_trait_names(config=True) if name in vars(cls)} - elsewhere


def test_every_section_of_the_settings_is_in_the_values():
    assert set(SECTIONS.values()) == set(ours.SECTIONS)


def test_a_queue_has_the_keys_of_a_queue():
    queue = schema()["properties"]["queues"]["additionalProperties"]["properties"]
    assert {snake(key) for key in queue} == set(KEYS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_setting_that_is_written_exists(path, tmp_path, monkeypatch):
    config = load_config(folder(objects(None, path), tmp_path, monkeypatch), ExecutedFiles())
    known = known_settings()
    unknown = [
        f"c.{section}.{name}"
        for section, values in config.items()
        if section in known
        for name in values
        if name not in known[section]
    ]
    assert unknown == []


def known_settings():
    classes = [*ours.SECTIONS, GPUShareMixin, KubernetesBackend, SchedulerService]
    return {cls.__name__: set(cls.class_trait_names(config=True)) for cls in classes}


def test_the_chart_sets_everything_of_the_backend_but_what_only_a_developer_needs(tmp_path, monkeypatch):
    config = load_config(folder(objects(), tmp_path, monkeypatch), ExecutedFiles())
    assert KubernetesBackend.class_own_traits(config=True).keys() - config.KubernetesBackend.keys() == {
        "creations",
        "kubeconfig",
        "lease_duration",
        "starts_ahead",
    }


def test_training_pods_get_their_priority_and_what_the_administrator_lays_on_them(tmp_path, monkeypatch):
    values = {"training": {"podOverrides": {"spec": {"nodeSelector": {"disk": "fast"}}}}}
    config = load_config(folder(objects(values), tmp_path, monkeypatch), ExecutedFiles())
    assert config.KubernetesBackend.pod_overrides == {"spec": {"nodeSelector": {"disk": "fast"}}}
    assert config.KubernetesBackend.training_priority_class == "gq-gq-training"
    assert config.KubernetesBackend.reservation_priority_class == "gq-gq-reservation"


def test_what_the_values_say_is_in_force(tmp_path, monkeypatch):
    values = {
        "fixedQuota": {"default": "0.5", "users": {"ann": "2"}},
        "queues": {"research": {"quota": "3"}, "nlp": {"parent": "research", "quota": "2", "overQuotaWeight": 4}},
        "idle": {"after": 90, "always": True, "stop": False},
        "longWaits": {"move": False},
        "config": {"extra": "c.TrainingQueues.grace = 7\n"},
    }
    entry = folder(objects(values), tmp_path, monkeypatch)
    config = load_config(entry, ExecutedFiles())
    assert config.FixedQuota.default == "0.5"
    assert config.TrainingQueues.queues["nlp"] == {"parent": "research", "quota": "2", "over_quota_weight": 4}
    assert (config.IdlePolicy.after, config.IdlePolicy.always, config.IdlePolicy.stop) == (90, True, False)
    assert config.LongWaits.move is False
    assert config.TrainingQueues.grace == 7
    assert config.KubernetesBackend.training_namespace == "gq-gq-train"
    assert (config.SchedulerService.backend, config.SchedulerService.state_dir) == ("kubernetes", "/state")
    assert config.SchedulerService.database_url == ""
    monkeypatch.setenv("JUPYTER_GQ_DATABASE_URL", "postgresql+psycopg://db/gq")
    assert load_config(entry, ExecutedFiles()).SchedulerService.database_url == "postgresql+psycopg://db/gq"


def test_a_mistake_in_the_values_is_named_with_the_line_that_it_became(tmp_path, monkeypatch):
    entry = folder(objects({"queues": {"nlp": {"quota": "2", "parent": "reserch"}}}), tmp_path, monkeypatch)
    with pytest.raises(Exception, match=r"jupyterhub_config_values_policy.py, line \d+.*reserch"):
        PolicyFile(entry, list)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("c.KubernetesBackend.lingerr = 5", "Did you mean c.KubernetesBackend.linger?"),
        ("c.GPUShareMixin.gpu_queue_timeot = 5", "Did you mean c.GPUShareMixin.gpu_queue_timeout?"),
        ("c.SchedulerService.backnd = 'local'", "Did you mean c.SchedulerService.backend?"),
        ("c.IdlePolicy.afterr = 5", "Did you mean c.IdlePolicy.after?"),
    ],
)
def test_a_misspelt_setting_of_any_section_of_ours_is_refused(line, told, tmp_path, monkeypatch):
    entry = folder(objects({"config": {"extra": f"{line}\nc.KubeSpawner.anything = 1\n"}}), tmp_path, monkeypatch)
    with pytest.raises(ConfigFileError, match=re.escape(told)) as refused:
        PolicyFile(entry, tuple, find_start_sections(SchedulerService, KubernetesBackend))
    assert re.search(r"jupyterhub_config_values_policy.py, line \d+", str(refused.value))


def test_over_subscription_is_refused_with_the_reason(tmp_path, monkeypatch):
    entry = folder(objects({"config": {"extra": "c.Pools.over_subscription = 2\n"}}), tmp_path, monkeypatch)
    with pytest.raises(ConfigFileError, match="on Kubernetes nodes come and go"):
        PolicyFile(entry, tuple, find_start_sections(SchedulerService, KubernetesBackend))


def test_the_settings_of_every_example_are_known_by_name(tmp_path, monkeypatch):
    for path in EXAMPLES:
        PolicyFile(
            folder(objects(None, path), tmp_path, monkeypatch),
            tuple,
            find_start_sections(SchedulerService, KubernetesBackend),
        )


def test_the_hub_of_zero_to_jupyterhub_reads_the_same_files():
    """It executes the files of the folder in the order of their names, after its own values are set."""
    c = Config()
    c.JupyterHub.services = [{"name": "jupyter-gq", "url": "http://gq-gq-service:8089", "api_token": "made by it"}]
    c.JupyterHub.load_roles = []
    c.KubeSpawner.cpu_limit = 2
    data = named(objects({"fixedQuota": {"default": "0.5"}}), "ConfigMap", "gq-gq-hub")["data"]
    given = {"c": c}
    for name in sorted(data):
        assert name.endswith(".py"), "the Hub reads no other files"
        exec(compile(data[name], name, "exec"), given)
    (service,) = c.JupyterHub.services
    assert (service["url"], service["api_token"]) == ("http://gq-gq-service:8089", "made by it")
    assert c.GPUShareMixin.service_url == "http://gq-gq-service.hub.svc:8089/services/jupyter-gq/"
    assert c.JupyterHub.spawner_class == "jupyter_gq.hub.kubernetes.spawner.GQKubeSpawner"
    assert (c.FixedQuota.default, c.KubeSpawner.cpu_limit) == ("0.5", 2)
