"""What administrators are told to write: values that exist, objects that Kubernetes takes, secrets where they count."""

import re
import textwrap
from dataclasses import replace

import kubernetes_validate
import pytest
import yaml

from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.domain.audit import Action
from tests.chart.render import NEWEST, OLDEST, ROOT, named, objects, schema
from tests.chart.test_settings import folder

PAGES = sorted((ROOT / "docs/how-to").glob("*.md"))
INSTALL = ROOT / "docs/how-to/install-beside-zero-to-jupyterhub.md"
#: Values of Zero to JupyterHub under the name that both charts have.
THEIRS = {
    "services",
    "loadRoles",
    "config",
    "extraConfig",
    "extraFiles",
    "consecutiveFailureLimit",
    "concurrentSpawnLimit",
}


def blocks():
    """Page and content of each block of YAML."""
    for page in PAGES:
        for text in re.findall(r"^ *```yaml\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE):
            yield page.name, yaml.safe_load(textwrap.dedent(text))


OBJECTS = [pytest.param(block, id=page) for page, block in blocks() if "kind" in block]


@pytest.mark.parametrize("found", OBJECTS)
def test_objects_of_a_page_are_valid(found):
    if found["apiVersion"].startswith("monitoring.coreos.com/"):
        return  # not of Kubernetes itself
    for version in (OLDEST, NEWEST):
        kubernetes_validate.validate(found, version, strict=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_value_that_a_page_names_exists(page):
    known = schema()["properties"]
    named_here = re.findall(r"`([a-z][A-Za-z]+(?:\.[a-z][A-Za-z]+)+)(?::[^`]*)?`", page.read_text())
    for path in named_here:
        first, *rest = path.split(".")
        if first not in known or path in set(Action) or (first == "hub" and rest[0] in THEIRS):
            continue
        node = known[first]
        for step in rest:
            node = node.get("properties", {}).get(step) or node.get("additionalProperties")
            assert isinstance(node, dict), f"{page.name} names {path}, which is no value of the chart"


def test_a_private_registry_is_known_in_every_namespace_where_images_are_pulled():
    loop = re.search(r"for namespace in (.*?); do\n\s+kubectl create secret docker-registry (\S+)", INSTALL.read_text())
    found = objects({"imagePullSecrets": [loop[2]]})
    pulling = {each["metadata"]["namespace"] for each in found if each["kind"] in ("Deployment", "DaemonSet")}
    pulling.add(named(found, "ServiceAccount", "gq-runner")["metadata"]["namespace"])
    assert {name.replace("$HUB", "hub") for name in loop[1].split()} == pulling
    (copies,) = [block for page, block in blocks() if block.get("kind") == "Pod"]
    assert copies["spec"]["imagePullSecrets"] == [{"name": loop[2]}]


def test_quotas_say_the_same_as_settings_and_as_values(tmp_path, monkeypatch):
    """The first two blocks of each kind on the page about quotas."""
    page = (ROOT / "docs/how-to/set-quotas.md").read_text()
    settings = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]
    values = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[:2]
    for said, as_values in zip(settings, values, strict=True):
        python = {"config": {"extra": said}}
        first, second = (
            PolicyFile(folder(objects(way), tmp_path, monkeypatch), tuple).current
            for way in (python, yaml.safe_load(as_values))
        )
        assert replace(first, training=()) == replace(second, training=())
        assert set(first.training) == set(second.training), "Helm writes the queues in the order of their names"


EVERYWHERE = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
#: Objects that belong to no namespace, and words for which none counts.
OF_THE_CLUSTER = ("kubectl label node", "kubectl get nodes", "kubectl delete namespace", "kubectl drain")


@pytest.mark.parametrize("page", EVERYWHERE, ids=lambda page: page.stem)
def test_each_name_of_an_object_is_one_that_the_chart_gives(page):
    """The pages tell of a release `gq`."""
    given = {name for each in ALL for name in (each["metadata"]["name"], each["metadata"].get("namespace", ""))}
    assert set(re.findall(r"\b[a-z-]*gq-gq-[a-z]+(?:-[a-z]+)*", page.read_text())) <= given


def everything():
    """The objects of an installation with all that can be switched on, on either database."""
    more = {"training": {"checkpoints": {"create": True}}, "admissionPolicy": {"enabled": True}}
    postgresql = {"kind": "postgresql", "postgresql": {"secretName": "gq-database"}}
    return objects(more) + objects({**more, "database": postgresql})


ALL = everything()


@pytest.mark.parametrize("page", EVERYWHERE, ids=lambda page: page.stem)
def test_a_command_says_in_which_namespace_its_object_is(page):
    """In another one the Secret would lie where nobody reads it, and Helm would know no release of that name."""
    text = page.read_text()
    shell = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).replace("\\\n", " ").splitlines()
    inline = [" ".join(found.split()) for found in re.findall(r"`((?:kubectl|helm) [^`]+)`", text)]
    for command in (line.strip() for line in [*shell, *inline]):
        names_an_object = command.startswith("kubectl ") and re.search(r"\S/\S| gq-|-f\b", command)
        names_a_release = re.match(r"helm [a-z ]+ gq\b", command)
        if (names_an_object or names_a_release) and not command.startswith(OF_THE_CLUSTER):
            assert re.search(r" (--namespace|-n|--all-namespaces)\b", command), f"{page.name}: {command}"


def test_the_example_of_check_devices_is_of_a_node_that_the_page_put_into_that_pool():
    page = INSTALL.read_text()
    pools = {pool: nodes.split() for nodes, pool in re.findall(r"label node (.*) jupyter-gq\.org/pool=(\w+)", page)}
    ((node, pool),) = re.findall(r"^Node (\S+), pool (\S+):", page, re.MULTILINE)
    assert node in pools[pool]
