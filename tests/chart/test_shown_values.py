"""With all values that we show somewhere, the service starts: its settings are taken as they are."""

import re

import pytest
import yaml

from jupyter_gq.backends.kubernetes.shares.device_check import Finding, Report
from jupyter_gq.check_devices import describe_report
from jupyter_gq.controller.settings.config_file import ExecutedFiles, load_config
from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.domain.pod_pool import Visibility
from tests.chart.render import EXAMPLES, ROOT, objects, schema, template
from tests.chart.test_settings import folder


def is_ours(values):
    """Whether they are values of this chart and not, say, of Zero to JupyterHub, which has a `hub` of its own."""
    known = schema()["properties"]
    if not isinstance(values, dict) or not values or not values.keys() <= known.keys():
        return False
    return (values.get("hub") or {}).keys() <= known["hub"]["properties"].keys()


def shown():
    """What the pages show, as blocks and within lines."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text()
        blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
        blocks += re.findall(r"`(\w+: \{[^`…]*\})`", text)
        for number, block in enumerate(blocks):
            if is_ours(values := yaml.safe_load(block)):
                yield pytest.param(values, id=f"{page.stem}-{number}")


SHOWN = tuple(shown())


def taken(values, files, tmp_path, monkeypatch):
    """The settings that the service makes of them."""
    return PolicyFile(folder(objects(values, *files), tmp_path, monkeypatch), tuple).current


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_service_starts_with_each_example(path, tmp_path, monkeypatch):
    assert taken(None, [path], tmp_path, monkeypatch).pod_pools


@pytest.mark.parametrize("values", SHOWN)
def test_the_service_starts_with_what_the_pages_show(values, tmp_path, monkeypatch):
    assert taken(values, [], tmp_path, monkeypatch).pod_pools


def test_one_pool_serves_notebooks_and_jobs(tmp_path, monkeypatch):
    settings = taken({"pools": {"all": {"nodes": {}}}}, [], tmp_path, monkeypatch)
    assert (settings.build_pool, settings.train_pool) == ("all", "all")
    assert len(SHOWN) >= 2, "the page on installing shows values, too"


def test_what_check_devices_says_to_write_is_taken_and_changes_the_way_of_that_pool_alone(tmp_path, monkeypatch):
    before = taken(None, [], tmp_path, monkeypatch)
    assert [pool.visibility for pool in before.pod_pools] == [Visibility.ENV, Visibility.ENV]
    report = Report(
        node="gpu-1",
        whole=Finding(devices=("GPU-1",)),
        void=Finding(devices=()),
        ways=((Visibility.ENV_CDI, Finding(devices=("GPU-1",))),),
    )
    pools = load_config(tmp_path / "jupyterhub_config.py", ExecutedFiles()).Pools.pools
    lines = describe_report(report, before.pod_pools[0], pools)
    advice = yaml.safe_load("\n".join(lines[lines.index("pools:") :]))
    after = taken(advice, [], tmp_path, monkeypatch).pod_pools
    assert [(pool.name, pool.visibility) for pool in after] == [
        ("build", Visibility.ENV_CDI),
        ("train", Visibility.ENV),
    ]
    assert [pool.selector for pool in after] == [pool.selector for pool in before.pod_pools]


def test_a_pool_without_the_labels_of_its_nodes_is_refused_before_it_stops_the_service():
    done = template({"pools": {"build": {"visibility": "env-cdi"}}})
    assert done.returncode != 0
    assert "nodes" in done.stderr
