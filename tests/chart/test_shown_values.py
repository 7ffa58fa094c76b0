"""With all values that we show somewhere, the service starts: its settings are taken as they are."""

import re

import pytest
import yaml

from jupyter_gq.controller.policy_file import PolicyFile
from tests.chart.render import EXAMPLES, ROOT, objects, schema
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
