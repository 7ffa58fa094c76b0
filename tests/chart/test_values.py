"""The values: closed at every level, described, and every one of them has an effect."""

import functools
import json
import shutil
import subprocess

import pytest
from traitlets import TraitError

from jupyter_gq.backends.kubernetes.settings import KubernetesBackend
from tests.chart.render import (
    CHART,
    IMAGE,
    NAMESPACE,
    NEWEST,
    RELEASE,
    ROOT,
    defaults,
    helm3,
    objects,
    schema,
    template,
)
from tests.patience import scaled

#: Only there because Helm hands them to every chart.
UNREAD = {"global", "enabled"}
#: A value for those paths where the schema does not say enough to invent one.
SAMPLES = {
    "queueing.secrets": ["HF_TOKEN"],
    "image.digest": "sha256:" + "a" * 64,
    "hub.notebookUrl": "http://proxy-public",
    "hub.url": "http://elsewhere:8081",
    "hub.baseUrl": "/jupyter/",
    "agent.kubeletDir": "/data/kubelet",
    "agent.journalDir": "/data/jupyter-gq",
    "bundles.url": "s3://bucket/folder",
    "config.extra": "c.IdlePolicy.after = 61\n",
    "monitoring.interval": "17s",
    "service.replicas": 2,
    "pools.x.resource": "example.org/gpu",
    "queues.x.parent": "y",
    "agent.affinity": {"nodeAffinity": {}},
    "service.affinity": {"podAffinity": {}},
    "training.homeVolume.path": "/home/ann",
    "training.dataVolumes.0.path": "/data/other",
    "training.podOverrides": {"spec": {"nodeSelector": {"disk": "fast"}}},
}
#: What must hold besides for a value to count; the longest prefix of the path decides.
POSTGRESQL = {"database": {"kind": "postgresql", "postgresql": {"secretName": "database"}}}
AUTHORITY = {"database": {"kind": "postgresql", "postgresql": {"secretName": "database", "caSecretName": "ca"}}}
LETS_PROMETHEUS_IN = {"networkPolicies": {"prometheus": {"kubernetes.io/metadata.name": "monitoring"}}}
WITH = {
    "service.replicas": POSTGRESQL,
    "service.handover": POSTGRESQL,
    "database.postgresql": POSTGRESQL,
    "database.postgresql.caSecretKey": AUTHORITY,
    "training.homeVolume": {"training": {"homeVolume": {"claim": "homes"}}},
    "training.dataVolumes": {"training": {"dataVolumes": [{"claim": "imagenet", "path": "/data/imagenet"}]}},
    "training.checkpoints.size": {"training": {"checkpoints": {"create": True}}},
    "training.checkpoints.storageClassName": {"training": {"checkpoints": {"create": True}}},
    "agent.journalDir": {"agent": {"suspend": True}},
    "bundles": {"bundles": {"url": "s3://bucket"}},
    "hub.serviceAccount": {"admissionPolicy": {"enabled": True}},
    "admissionPolicy.exemptNamespaces": {"admissionPolicy": {"enabled": True}},
    "monitoring": {"monitoring": {"serviceMonitor": True}, **LETS_PROMETHEUS_IN},
    "monitoring.serviceMonitor": LETS_PROMETHEUS_IN,
    "queues.x.parent": {"queues": {"y": {}}},
    "pools.x": {"pools": {"x": {"nodes": {}}}},
    "pools.x.scaleUp": {"pools": {"x": {"nodes": {}, "scaleUp": {"gpus": 1, "nodes": 1}}}},
    "priorityClasses.placeholder": {"pools": {"x": {"nodes": {}, "scaleUp": {"gpus": 1, "nodes": 1}}}},
}


def leaves(node, path=()):
    """Path and schema of every value; "x" stands for a name, 0 for a place in a list."""
    if "properties" in node:
        for name, inner in node["properties"].items():
            yield from leaves(inner, (*path, name))
    elif isinstance(node.get("additionalProperties"), dict):
        yield from leaves(node["additionalProperties"], (*path, "x"))
    elif node.get("type") == "array" and "properties" in node["items"]:
        yield from leaves(node["items"], (*path, 0))
    else:
        yield path, node


def levels(node, path=()):
    """Path of every object and every closed level inside of lists and names."""
    if node.get("type") == "object" and not node.get("x-kubernetes"):
        yield path, node
    for name, inner in node.get("properties", {}).items():
        yield from levels(inner, (*path, name))
    if isinstance(node.get("additionalProperties"), dict):
        yield from levels(node["additionalProperties"], (*path, "x"))
    if "items" in node:
        yield from levels(node["items"], (*path, 0))


def placed(path, value):
    """The value at that path, in dicts and lists."""
    for step in reversed(path):
        value = [value] if step == 0 else {step: value}
    return value


def united(first, second):
    """Both, the second over the first."""
    if isinstance(first, list) and isinstance(second, list):
        return [united(*pair) for pair in zip(first, second, strict=True)]
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return second
    return {**first, **{key: united(first[key], value) if key in first else value for key, value in second.items()}}


def sample(path, node):
    """A value other than the default."""
    dotted = ".".join(map(str, path))
    if dotted in SAMPLES:
        return SAMPLES[dotted]
    default = defaults()
    for step in path:
        default = default.get(step) if isinstance(default, dict) else None
    if "enum" in node:
        return next(choice for choice in node["enum"] if choice not in (default, None, ""))
    kind = node["type"][0] if isinstance(node["type"], list) else node["type"]
    if kind == "boolean":
        return not default
    if kind in ("number", "integer"):
        return (default or node.get("minimum", 0)) + 1
    if kind == "array":
        return ["10.9.0.0/16" if "pattern" in node["items"] else "other"]
    known = {"GPUs": "3", "cores": "3", "GiB, or as written": "7 GiB", "bytes (Kubernetes quantity)": "7Gi"}
    return known.get(node.get("unit", ""), "other")


LEAVES = {".".join(map(str, path)): (path, node) for path, node in leaves(schema()) if path[0] not in UNREAD}
LEVELS = {".".join(map(str, path)) or "(top)": path for path, node in levels(schema())}


def test_the_kind_of_the_database_has_an_effect():
    assert rendered(json.dumps(POSTGRESQL)) != rendered("{}")


#: The kind of the database is not changed alone: PostgreSQL needs a Secret, which SQLite refuses.
@pytest.mark.parametrize("dotted", [name for name in LEAVES if name != "database.kind"])
def test_every_value_has_an_effect(dotted):
    path, node = LEAVES[dotted]
    prefixes = [".".join(map(str, path[:end])) for end in range(len(path), 0, -1)]
    besides = next((WITH[prefix] for prefix in prefixes if prefix in WITH), {})
    empty = placed(path[: path.index("x") + 1], {}) if "x" in path[:-1] else {}
    without = rendered(json.dumps(united(besides, empty)))
    given = rendered(json.dumps(united(besides, placed(path, sample(path, node)))))
    assert given != without, f"{dotted} is read by no template"


@functools.cache
def rendered(values):
    """What these values, written as JSON, render."""
    done = template(json.loads(values))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_typo_is_refused_at_every_level():
    """All at once: Helm names every one of them."""
    values, typos = {}, {}
    for number, (dotted, path) in enumerate(LEVELS.items()):
        typos[dotted] = f"misspelt{number}x"
        values = united(values, placed(path, {typos[dotted]: wrong(path)}))
    done = template(values)
    assert done.returncode != 0
    assert [dotted for dotted, typo in typos.items() if typo not in done.stderr] == []
    assert len(typos) > 40


def wrong(path):
    """What cannot stand there under any name."""
    node = schema()
    for step in path:
        node = node["items"] if step == 0 else node.get("properties", {}).get(step) or node["additionalProperties"]
    anything = node["additionalProperties"]
    return 5 if anything is not False else "1"


def test_every_object_of_the_schema_is_closed_or_passed_on():
    def check(node, path):
        if node.get("type") == "object":
            assert "additionalProperties" in node or node.get("x-kubernetes"), f"{path} is open"
        for name, inner in node.get("properties", {}).items():
            check(inner, f"{path}.{name}")
        for inner in (node.get("items"), node.get("additionalProperties")):
            if isinstance(inner, dict):
                check(inner, f"{path}[]")

    check(schema(), "")
    assert {"global", "enabled"} <= set(schema()["properties"])


#: Sections that may be without values: the service then has its defaults, and jobs have no home volume.
MAY_BE_EMPTY = {
    "fixedQuota",
    "queueing",
    "poolUse",
    "fairness",
    "longWaits",
    "placement",
    "auditLog",
    "training.homeVolume",
}


def closed_sections(part, path=()):
    """The path of every section of the schema with values of its own; without `resources`, which null switches off."""
    for name, inner in part["properties"].items():
        if name != "resources" and inner.get("type") == "object" and "properties" in inner:
            yield (*path, name)
            yield from closed_sections(inner, (*path, name))


def test_a_section_without_values_is_refused_by_its_name():
    """Such as a heading whose lines are comments: Helm takes its default values away."""
    for *above, name in closed_sections(schema()):
        part = functools.reduce(lambda found, each: found["properties"][each], above, schema())
        assert (name in part.get("required", ())) != (".".join([*above, name]) in MAY_BE_EMPTY)
    done = template({"training": None})
    assert done.returncode != 0
    assert "training is required" in done.stderr


def test_a_section_in_which_no_value_is_needed_may_be_a_heading_over_comments():
    headings = functools.reduce(united, (placed(dotted.split("."), None) for dotted in MAY_BE_EMPTY))
    assert rendered(json.dumps(headings)) == rendered("{}")


def test_every_value_is_described_with_its_unit():
    for dotted, (_, node) in LEAVES.items():
        assert len(node.get("description", "")) >= 12 or dotted.endswith((".key", ".value")), dotted
        numeric = {"number", "integer"} & set(node["type"] if isinstance(node["type"], list) else [node["type"]])
        assert not numeric or node.get("unit"), f"{dotted} is a number of what?"


def test_schema_and_values_name_the_same():
    def compare(node, values, path):
        for name in values:
            assert name in node["properties"], f"{path}.{name} is not in the schema"
        for name, inner in node["properties"].items():
            assert name in values, f"{path}.{name} is not in values.yaml"
            if "properties" in inner and not inner.get("x-kubernetes"):
                compare(inner, values[name] or {}, f"{path}.{name}") if name != "resources" else None

    compare(schema(), defaults(), "")


@pytest.mark.parametrize(
    "values",
    [
        {"queues": {"a": {"quota": 4}}},
        {"queues": {"a": {"quota": "4GB"}}},
        {"database": {"sqlite": {"size": "ten"}}},
        {"database": {"kind": "mysql"}},
        {"service": {"replicas": 3}},
        {"pools": {"a": {"nodes": {}, "provider": "kueue"}}},
        {"pools": {"a": {"hold": "always"}}},
        {"networkPolicies": {"allow": ["10.0.0.1"]}},
        {"fixedQuota": {"default": "-1"}},
        {"poolUse": {"overSubscription": 1.5}},
        {"training": {"namespace": "Train"}},
        {"training": {"namespace": "gq.train"}},
        {"nodes": {"namespace": "n" * 64}},
        {"agent": {"runtimeClassName": "Nvidia X"}},
        {"image": {"name": "a b"}},
        {"image": {"name": "registry.example.org/service:1.0"}},
        {"training": {"homeVolume": {"claim": "homes", "path": "home"}}},
        {"training": {"homeVolume": {"claim": "homes", "path": "/"}}},
    ],
    ids=json.dumps,
)
def test_a_value_that_makes_no_sense_is_refused(values):
    assert template(values).returncode != 0


#: Of an administrator's part of a pod, with where the error is; the service refuses them and others in a sentence.
IMPOSSIBLE_OVERRIDES = {
    "spec": [{"spec": "x"}, {"spec": {"nodeName": "n2"}}, {"spec": {"restartPolicy": "Always"}}],
    "podOverrides": [{"nodeSelector": {"disk": "fast"}}],
    "metadata": [
        {"metadata": {"name": "mine"}},
        {"metadata": {"namespace": "default"}},
        {"metadata": {"labels": {"cost": 12}}},
        {"metadata": {"annotations": {"jupyter-gq.org/slots": "n2/7"}}},
    ],
    "containers": [
        {"spec": {"containers": {"runner": {"image": "y"}}}},
        {"spec": {"containers": [{"image": "side"}]}},
        {"spec": {"containers": [{"name": "runner", "env": {"A": "1"}}]}},
        {"spec": {"containers": [{"name": "runner", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]}},
    ],
    "initContainers": [{"spec": {"initContainers": "x"}}],
    "resourceClaims": [{"spec": {"resourceClaims": [{"name": "gpu"}]}}],
    "volumes": [{"spec": {"volumes": [{"emptyDir": {}}]}}],
    "affinity": [{"spec": {"affinity": "x"}}],
}


@pytest.mark.parametrize(
    ("where", "overrides"), [(where, each) for where, all_ in IMPOSSIBLE_OVERRIDES.items() for each in all_], ids=str
)
def test_overrides_that_no_job_can_have_are_refused(where, overrides):
    with pytest.raises(TraitError):
        KubernetesBackend(pod_overrides=overrides)
    done = template({"training": {"podOverrides": overrides}})
    assert done.returncode != 0
    assert where in done.stderr


def test_overrides_of_many_kinds_are_taken():
    container = {
        "name": "runner",
        "env": [{"name": "A", "value": "1"}],
        "resources": {"limits": {"memory": "8Gi", "rdma/hca": 1}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "hostname": "x",
    }
    overrides = {"metadata": {"labels": {"azure.workload.identity/use": "true"}}, "spec": spec}
    done = template({"training": {"podOverrides": overrides}})
    assert done.returncode == 0, done.stderr
    assert KubernetesBackend(pod_overrides=overrides).pod_overrides == overrides


@pytest.mark.parametrize("release", ["a" * 53, "gq.x"])
def test_a_release_whose_objects_could_have_no_names_is_refused(release):
    done = template(release=release)
    assert done.returncode != 0
    assert f"The release is called {release}" in done.stderr
    assert "at most 52 small letters, digits and hyphens, such as" in done.stderr


def test_the_objects_of_the_longest_release_have_names_that_kubernetes_takes():
    found = objects(release="a" * 52)
    names = [each["metadata"]["name"] for each in found if each["kind"] in ("Service", "Namespace")]
    assert max(map(len, names)) == 63


@pytest.mark.parametrize("path", ["/gq/x", "/gq", "//proc", "/var/run/x", "/dev/shm", "/home/../gq"])
def test_a_volume_where_pods_have_something_else_is_refused(path):
    for volumes in ({"homeVolume": {"claim": "h", "path": path}}, {"dataVolumes": [{"claim": "h", "path": path}]}):
        done = template({"training": volumes})
        assert done.returncode != 0
        assert f"training.homeVolume or dataVolumes: the claim h has the path {path}, where pods of" in done.stderr
    assert template({"training": {"homeVolume": {"claim": "h", "path": "/gqs/x"}}}).returncode == 0


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"image": {"name": ""}}, "Name the image that you built from docker/service.Dockerfile"),
        ({"service": {"replicas": 2}}, "Set database.kind: postgresql, or service.replicas: 1."),
        ({"database": {"kind": "postgresql"}}, "Name the Secret that holds the URL."),
        ({"training": {"checkpoints": {"claim": "mine", "create": True}}}, "Set one of the two."),
        (
            {"agent": {"enabled": False}, "pools": {"build": {"nodes": {}, "provider": "hami"}}},
            "nobody counts the GPUs of its nodes and the pool has none. Set agent.enabled: true",
        ),
        ({"database": {"postgresql": {"secretName": "gq"}}}, "Set database.kind: postgresql, or leave the name out."),
        ({"training": {"namespace": "x"}, "nodes": {"namespace": "x"}}, "are both x, and the chart makes them"),
        ({"training": {"namespace": NAMESPACE}}, "Give jobs a namespace of their own."),
        ({"nodes": {"namespace": NAMESPACE}}, "Give agents a namespace of their own."),
        ({"bundles": {"secretName": "bucket"}}, "Set bundles.url, or leave the name out."),
        ({"monitoring": {"serviceMonitor": True}}, "Prometheus may not reach the service. Give the labels"),
    ],
)
def test_values_that_contradict_each_other_are_refused_with_a_sentence(values, sentence):
    done = template(values)
    assert done.returncode != 0
    assert sentence in done.stderr


def test_an_umbrella_chart_can_switch_it_and_hand_it_its_globals(tmp_path):
    umbrella = tmp_path / "umbrella"
    (umbrella / "charts").mkdir(parents=True)
    shutil.copytree(CHART, umbrella / "charts" / "jupyter-gq")
    (umbrella / "Chart.yaml").write_text(
        "apiVersion: v2\nname: umbrella\nversion: 1.0.0\n"
        "dependencies: [{name: jupyter-gq, version: '*', condition: jupyter-gq.enabled}]\n"
    )

    def rendered(enabled):
        values = {"global": {"site": "here"}, "jupyter-gq": {"enabled": enabled, "image": {"name": IMAGE}}}
        (umbrella / "values.yaml").write_text(json.dumps(values))
        command = [helm3(), "template", RELEASE, str(umbrella), "--kube-version", NEWEST]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=scaled(30)).stdout

    assert "kind: Deployment" in rendered(True)
    assert rendered(False).strip() == ""


def test_the_reference_page_names_every_value():
    page = (ROOT / "docs/reference/chart.md").read_text()
    for dotted in LEAVES:
        assert f"`{shown(dotted)}`" in page, dotted


def shown(dotted):
    """As the page writes it."""
    return dotted.replace(".x", ".<name>").replace(".0", "[]")
