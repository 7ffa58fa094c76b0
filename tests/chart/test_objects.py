"""What the chart renders: valid everywhere, named once, with no right and no secret too many."""

import asyncio
import json
import re
import shutil
import socket
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from traitlets.config import Config

from jupyter_gq.agent.app import NodeAgent
from jupyter_gq.api.access import Access
from jupyter_gq.api.auth import HubAuthenticator
from jupyter_gq.api.listener import Listener
from jupyter_gq.api.routes import ROUTES
from jupyter_gq.api.standby import Standby
from jupyter_gq.demo.processes import free_port
from jupyter_gq.hub.config_kubernetes import configure_kubernetes
from tests.chart.render import (
    CHART,
    EXAMPLES,
    IMAGE,
    NAMESPACE,
    NEWEST,
    OLDEST,
    ROOT,
    example,
    named,
    objects,
    run_helm,
    template,
)

each_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
SERVICE = "gq-gq-service"
NODES, TRAINING = "gq-gq-nodes", "gq-gq-train"


def test_there_is_an_example_of_every_way_to_install():
    assert {path.name.removesuffix("-values.yaml") for path in EXAMPLES} == {
        "minimal", "postgresql", "hami", "jobs", "closed", "monitoring", "growing"
    }  # fmt: skip


def _list_names(value, key=""):
    """Yield what stands at keys that the API server takes as texts only, wherever they are in an object."""
    for name, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        texts = key in {"labels", "matchLabels", "annotations", "nodeSelector"} or name in {"name", "namespace"}
        if texts and not isinstance(inner, dict | list):
            yield name, inner
        yield from _list_names(inner, name)


#: Names of other objects that somebody may have called by a number.
NUMBERS = {
    "imagePullSecrets": ["1"],
    "hub": {"apiToken": {"secretName": "2", "secretKey": "3"}},
    "nodes": {"namespace": "4"},
    "training": {"namespace": "5"},
    "monitoring": {"tokenSecretName": "6", "tokenSecretKey": "7"},
}


@each_example
def test_names_that_look_like_numbers_stay_texts(path):
    for found in objects(NUMBERS, path, release="123", hub="456"):
        wrong = [(name, value) for name, value in _list_names(found) if not isinstance(value, str)]
        assert not wrong, (found["kind"], found["metadata"]["name"])


@each_example
def test_helm_finds_nothing_to_say(path):
    done = run_helm("lint", "--strict", str(CHART), "--values", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@each_example
def test_every_object_is_valid_in_every_version_that_we_support(path, version):
    for found in example(path):
        if found["apiVersion"] == "monitoring.coreos.com/v1":
            continue  # not of Kubernetes itself
        kubernetes_validate.validate(found, version, strict=True)


@each_example
def test_names_are_given_once(path):
    names = [(found["kind"], found["metadata"].get("namespace"), found["metadata"]["name"]) for found in example(path)]
    assert len(set(names)) == len(names)


def test_two_installations_in_one_cluster_do_not_meet():
    def names(release, hub):
        found = objects({"admissionPolicy": {"enabled": True}}, release=release, hub=hub)
        return {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in found}

    assert not names("gq", "hub") & names("gq2", "hub2")


def test_every_name_comes_from_one_file():
    for path in (CHART / "templates").rglob("*.yaml"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert ".Release.Name }}-" not in line, f"{path.name}:{number} makes a name of its own"


@each_example
def test_no_right_is_wider_than_its_use(path):
    for found in example(path):
        for rule in found.get("rules", []):
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]], found["metadata"]["name"]
            assert not {"secrets", "pods/exec", "serviceaccounts/token"} & set(rule["resources"])
            assert not {"patch", "escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])
        if found["kind"].endswith("Binding") and "roleRef" in found:
            assert found["roleRef"]["name"] == SERVICE
            assert found["subjects"] == [{"kind": "ServiceAccount", "name": "gq-service", "namespace": NAMESPACE}]


def test_placeholders_have_a_priority_only_where_the_cluster_grows():
    def classes(values):
        return {f["metadata"]["name"]: f for f in objects(values) if f["kind"] == "PriorityClass"}

    growing = {"pools": {"a": {"nodes": {}}, "b": {"nodes": {"b": "c"}, "scaleUp": {"gpus": 8, "nodes": 4}}}}
    assert "gq-gq-placeholder" not in classes({"pools": {"a": {"nodes": {}}}})
    placeholder = classes(growing)["gq-gq-placeholder"]
    others = [each["value"] for name, each in classes(growing).items() if name != "gq-gq-placeholder"]
    assert (placeholder["value"], placeholder["preemptionPolicy"]) == (-10, "Never")
    assert placeholder["value"] < min(others)


def test_foreign_pods_are_read_only_where_the_administrator_says_so():
    assert pods_of_the_cluster({}) == []
    assert pods_of_the_cluster({"observe": {"allPods": True}}) == ["list", "watch"]


def pods_of_the_cluster(values):
    rules = named(objects(values), "ClusterRole")["rules"]
    return [verb for rule in rules if "pods" in rule["resources"] for verb in rule["verbs"]]


@each_example
def test_only_the_service_gets_a_token_of_the_api_server(path):
    for found in example(path):
        if found["kind"] == "ServiceAccount":
            assert found["automountServiceAccountToken"] is False, found["metadata"]["name"]
        if found["kind"] in ("Deployment", "DaemonSet"):
            mounted = found["spec"]["template"]["spec"]["automountServiceAccountToken"]
            assert mounted is (found["metadata"]["name"] == SERVICE)


@each_example
def test_no_secret_lies_in_a_config_map(path):
    kinds = {found["kind"] for found in example(path)}
    assert "Secret" not in kinds, "secrets are made by others and referred to by name"
    for found in example(path):
        if found["kind"] == "ConfigMap":
            text = json.dumps(found["data"]).lower()
            assert not [word for word in ("password", "api_token", "://user:") if word in text.replace(PROSE, "")]


PROSE = "contains a password, so it comes from a secret"


@each_example
def test_what_jobs_live_in_stays_when_the_chart_goes(path):
    for found in example(path):
        if found["kind"] in ("Namespace", "PersistentVolumeClaim"):
            marks = found["metadata"]["annotations"]
            assert marks["helm.sh/resource-policy"] == "keep", found["metadata"]["name"]
            assert marks["argocd.argoproj.io/sync-options"] == "Prune=false", found["metadata"]["name"]
        assert "helm.sh/hook" not in found["metadata"].get("annotations", {})


def test_training_is_restricted_unless_a_pool_needs_a_mount_of_the_host():
    def level(values):
        return named(objects(values), "Namespace", TRAINING)["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]

    assert level({}) == "restricted"
    assert level({"pools": {"a": {"nodes": {}, "visibility": "env"}}}) == "restricted"
    assert level({"pools": {"a": {"nodes": {}}, "b": {"nodes": {}, "visibility": "volume-mount"}}}) == "privileged"


def test_sqlite_has_one_writer_and_postgresql_two_replicas():
    alone = named(objects(), "Deployment")["spec"]
    assert (alone["replicas"], alone["strategy"]["type"]) == (1, "Recreate")
    two = example(CHART / "ci/postgresql-values.yaml")
    both = named(two, "Deployment")["spec"]
    assert both["replicas"] == 2
    # Only the leader is ready: a step that waits for a second one to be ready, or a budget, would wait for ever.
    assert both["strategy"]["rollingUpdate"]["maxUnavailable"] == 2
    assert SERVICE not in {found["metadata"]["name"] for found in two if found["kind"] == "PodDisruptionBudget"}
    assert "gq-gq-state" not in {found["metadata"]["name"] for found in two}


def test_the_databases_certificate_is_held_against_the_authority_that_the_page_names():
    service = pod_of(example(CHART / "ci/postgresql-values.yaml"), "Deployment")
    (volume,) = [volume for volume in service["volumes"] if volume["name"] == "database-ca"]
    (mount,) = [mount for mount in service["containers"][0]["volumeMounts"] if mount["name"] == "database-ca"]
    (item,) = volume["secret"]["items"]
    assert (volume["secret"]["secretName"], item["key"]) == ("gq-database-ca", "ca.crt")
    page = (ROOT / "docs/how-to/use-postgresql.md").read_text()
    assert f"sslmode=verify-full&sslrootcert={mount['mountPath']}/{item['path']}" in page


def test_the_leader_works_on_until_the_next_one_can_follow():
    """With SQLite no pod can follow before the old one has gone."""

    def ends(values):
        spec = named(objects(values), "Deployment")["spec"]["template"]["spec"]
        return spec["containers"][0].get("lifecycle"), spec["terminationGracePeriodSeconds"]

    postgresql = {"kind": "postgresql", "postgresql": {"secretName": "database"}}
    assert ends({}) == (None, 30)
    for replicas in (1, 2):
        service = {"replicas": replicas}
        works_on, grace = ends({"database": postgresql, "service": service})
        assert works_on == {"preStop": {"sleep": {"seconds": 30}}}
        assert grace == 30 + 30, "what is left after it is the time to end in order"
        assert ends({"database": postgresql, "service": {**service, "handover": 0}}) == (None, 30)


def test_a_change_of_quotas_restarts_nothing_and_one_of_the_cluster_does():
    def pods(values):
        return named(objects(values), "Deployment")["spec"]["template"]

    assert pods({}) == pods({"queues": {"a": {"quota": "1"}}}) == pods({"idle": {"after": 60}})
    assert pods({}) != pods({"reservations": {"linger": 61}})


def test_the_hubs_files_are_those_of_the_product_byte_for_byte():
    shipped = list((CHART / "files" / "hub").iterdir())
    assert [path.name for path in shipped] == ["jupyterhub_config_kubernetes.py"]
    for path in shipped:
        assert path.read_bytes() == (ROOT / "hub_config" / path.name).read_bytes(), (
            f"run: cp hub_config/{path.name} {path}"
        )
    data = named(objects(), "ConfigMap", "gq-gq-hub")["data"]
    assert data[shipped[0].name] == shipped[0].read_text()


def test_the_chart_is_of_the_version_of_the_product():
    version = json.loads((ROOT / "labextension/package.json").read_text())["version"]
    text = (CHART / "Chart.yaml").read_text()
    assert f'appVersion: "{version}"' in text
    assert f"version: {version}\n" in text
    assert f'kubeVersion: ">={OLDEST}.0-0"' in text


def test_the_notes_name_what_is_to_be_added_to_the_hub(tmp_path):
    to_add = to_add_to_the_hub(tmp_path)
    hub = to_add["hub"]
    assert hub["services"]["jupyter-gq"]["url"] == "http://gq-gq-service:8089"
    assert hub["extraVolumes"][0]["configMap"]["name"] == "gq-gq-hub"
    assert hub["extraVolumeMounts"][0]["mountPath"] == "/usr/local/etc/jupyterhub/jupyterhub_config.d"
    assert to_add["cull"] == {"enabled": False}, "two judges of idleness would fight"
    # Zero to JupyterHub drops services from hub.config: they have values of their own.
    assert "config" not in hub


def test_the_page_has_the_lines_of_the_notes(tmp_path):
    """Nobody who installs by Argo CD or Flux ever sees the notes."""

    def without_images(lines):
        return {**lines, "hub": {**lines["hub"], "image": 0}, "singleuser": {**lines["singleuser"], "image": 0}}

    page = (ROOT / "docs/how-to/install-beside-zero-to-jupyterhub.md").read_text()
    blocks = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    (told,) = [block for block in blocks if "cull" in block]
    assert without_images(told) == without_images(to_add_to_the_hub(tmp_path))
    ours = {"spawner_class", "custom_scopes", "load_roles", "template_paths", "last_activity_interval"}
    c = Config()
    c.JupyterHub.services = [{"name": "jupyter-gq"}]
    configure_kubernetes(c)
    written = set(c.JupyterHub) - {"services", "extra_user_scopes"}
    assert written == ours, "name on the page whatever is taken from the administrator"


def test_the_notes_of_two_replicas_do_not_say_to_wait_for_the_second(tmp_path):
    two = ["service.replicas=2", "database.kind=postgresql", "database.postgresql.secretName=database"]
    assert "rollout status deployment/gq-gq-service" in notes(tmp_path / "one")
    told = notes(tmp_path / "two", *two)
    assert "get lease/gq-gq-service" in told
    assert "deployment/gq-gq-service" not in told


def test_notes_say_that_nothing_is_suspended_while_no_agent_may(tmp_path):
    told = "no agent may suspend"
    assert told in notes(tmp_path / "one", "idle.suspend=true")
    assert told not in notes(tmp_path / "two", "idle.suspend=true", "agent.suspend=true")
    assert told not in notes(tmp_path / "three")


def to_add_to_the_hub(tmp_path, *values):
    """The values of Zero to JupyterHub in the notes."""
    return yaml.safe_load(notes(tmp_path, *values).partition("upgrade it:\n")[2].partition("\n2.")[0])


def notes(tmp_path, *values):
    """`helm template` leaves the notes out and `helm install` asks a cluster: so they are put into an object."""
    chart = shutil.copytree(CHART, tmp_path / "jupyter-gq")
    text = (chart / "templates" / "NOTES.txt").read_text()
    (chart / "templates" / "_notes.tpl").write_text('{{- define "notes" }}' + text + "{{- end }}")
    (chart / "templates" / "notes.yaml").write_text('notes: {{ include "notes" . | quote }}')
    options = ["--namespace", NAMESPACE, "--show-only", "templates/notes.yaml"]
    options += [word for value in (f"image.name={IMAGE}", *values) for word in ("--set", value)]
    done = run_helm("template", "gq", str(chart), *options)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["notes"]


def test_the_image_is_the_administrators_own_by_tag_or_by_digest():
    def images(**image):
        found = objects({"image": {"name": "registry.example.org/gq", **image}})
        return {pod["containers"][0]["image"] for pod in (pod_of(found, "DaemonSet"), pod_of(found, "Deployment"))}

    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert images() == {f"registry.example.org/gq:{version}"}
    assert images(tag="2") == {"registry.example.org/gq:2"}
    digest = "sha256:" + "a" * 64
    assert images(tag="2", digest=digest) == {f"registry.example.org/gq@{digest}"}


def pod_of(found, kind):
    return named(found, kind)["spec"]["template"]["spec"]


def agent_and_service():
    found = objects()
    return pod_of(found, "DaemonSet"), pod_of(found, "Deployment")


def test_an_agent_shows_the_service_a_token_that_is_good_for_nothing_else():
    agent, _ = agent_and_service()
    (token,) = [volume for volume in agent["volumes"] if volume["name"] == "token"]
    (source,) = token["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == "jupyter-gq"
    assert "ports" not in agent["containers"][0]
    assert Path(agent["containers"][0]["volumeMounts"][0]["mountPath"]).name == "jupyter-gq"


def test_both_programs_are_started_by_commands_that_exist():
    from jupyter_gq.app import build_parser

    known = build_parser().format_help()
    for pod in agent_and_service():
        program, command, *_ = pod["containers"][0]["command"]
        assert program == "jupyter-gq"
        assert f"\n  {command} " in known, f"jupyter-gq has no command {command}"


def test_the_service_imports_nothing_from_its_working_folder():
    _, service = agent_and_service()
    (container,) = service["containers"]
    assert container["workingDir"] == "/"
    assert {"name": "PYTHONSAFEPATH", "value": "1"} in container["env"]


def test_the_probes_ask_for_routes_that_anybody_may_ask_for():
    _, service = agent_and_service()
    (container,) = service["containers"]
    public = {r.path for r in ROUTES if r.method == "GET" and r.access in (Access.PUBLIC, Access.OPEN)}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        path = container[probe]["httpGet"]["path"]
        assert path.removeprefix("/services/jupyter-gq/api/v1/") in public, probe


def has_ipv6():
    with socket.socket(socket.AF_INET6) as one:
        try:
            one.bind(("::1", 0))
        except OSError:
            return False
    return True


@pytest.mark.skipif(not socket.has_ipv6 or not has_ipv6(), reason="this machine has no IPv6")
def test_the_service_listens_for_ipv4_and_for_ipv6():
    """Its pod has an address of one family or of both, as the cluster's pods have."""
    _, service = agent_and_service()
    (url,) = (each["value"] for each in service["containers"][0]["env"] if each["name"] == "JUPYTERHUB_SERVICE_URL")
    port = free_port()

    async def reach():
        authenticator = HubAuthenticator("http://hub", "")
        async with Listener(url=url.replace("8089", str(port)), prefix="/", authenticator=authenticator).serve(
            Standby("1.0", lambda: "starting")
        ):
            for address in ("127.0.0.1", "::1"):
                _, writer = await asyncio.open_connection(address, port)
                writer.close()

    asyncio.run(reach())


def test_an_agent_sees_the_processes_the_devices_and_the_books_of_its_node():
    """Without any of these it could not tell who has which device, nor take one away."""
    pod = pod_of(objects({"agent": {"kubeletDir": "/data/kubelet"}}), "DaemonSet")
    (agent,) = pod["containers"]
    assert pod["hostPID"] is True
    assert agent["securityContext"]["privileged"] is True
    environment = {each["name"]: each.get("value") for each in agent["env"]}
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert {"compute", "utility"} <= set(environment["NVIDIA_DRIVER_CAPABILITIES"].split(","))
    hosts = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    mounts = {hosts[each["name"]]: each["mountPath"] for each in agent["volumeMounts"] if each["name"] in hosts}
    assert mounts == {
        "/data/kubelet/pod-resources": str(Path(NodeAgent.pod_resources.default_value).parent),
        "/sys/fs/cgroup": "/sys/fs/cgroup",
    }
    assert all(each["readOnly"] for each in agent["volumeMounts"] if each["name"] in hosts)


@pytest.mark.parametrize("allowed", [True, False])
def test_an_agent_ends_programs_only_if_the_chart_lets_it(allowed):
    values = {} if allowed else {"agent": {"endPrograms": False}}
    found = objects(values)
    (container,) = pod_of(found, "DaemonSet")["containers"]
    agent = NodeAgent()
    agent.initialize(container["command"][2:])
    assert agent.end_programs is allowed
    plain = pod_of(objects(), "DaemonSet")
    assert {**container, "command": []} == {**plain["containers"][0], "command": []}, "its rights stay the same"


@pytest.mark.parametrize(("ends", "capabilities"), [(True, ["SYS_PTRACE", "KILL"]), (False, ["SYS_PTRACE"])])
def test_an_agent_that_is_not_privileged_has_the_capabilities_of_its_calls_alone(ends, capabilities):
    """What each is for is measured in tests/unit/agent/test_capabilities.py."""
    (container,) = pod_of(objects({"agent": {"privileged": False, "endPrograms": ends}}), "DaemonSet")["containers"]
    rights = container["securityContext"]
    assert rights["capabilities"] == {"drop": ["ALL"], "add": capabilities}
    assert "privileged" not in rights
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["runAsUser"] == 0, "the owner of the kubelet's socket"


def test_an_agent_that_is_to_suspend_must_be_privileged():
    done = template({"agent": {"suspend": True, "privileged": False}})
    assert done.returncode != 0
    assert "Set agent.privileged: true, or agent.suspend: false" in done.stderr


def test_an_agent_that_may_suspend_has_a_folder_of_its_node_for_the_journal():
    found = objects({"agent": {"suspend": True, "journalDir": "/data/gq"}})
    pod = pod_of(found, "DaemonSet")
    (container,) = pod["containers"]
    agent = NodeAgent()
    agent.initialize(container["command"][2:])
    assert agent.suspend
    (mount,) = (each for each in container["volumeMounts"] if each["name"] == "journal")
    assert mount == {"name": "journal", "mountPath": agent.journal}
    (volume,) = (each for each in pod["volumes"] if each["name"] == "journal")
    folder = f"/data/gq/{NAMESPACE}/gq"
    assert volume["hostPath"] == {"path": folder, "type": "DirectoryOrCreate"}, "of this installation alone"
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert "compute" in variables["NVIDIA_DRIVER_CAPABILITIES"], "the library with the driver's checkpoint calls"
    plain = pod_of(objects(), "DaemonSet")
    assert "journal" not in [each["name"] for each in plain["volumes"]], "nothing of the node is written by default"
    assert container["securityContext"] == plain["containers"][0]["securityContext"]


def test_an_identity_of_the_cloud_is_given_to_jobs_and_to_nobody_else():
    marks = {"iam.gke.io/gcp-service-account": "checkpoints@project.iam.gserviceaccount.com"}
    found = objects({"training": {"serviceAccountAnnotations": marks}})
    accounts = [each["metadata"] for each in found if each["kind"] == "ServiceAccount"]
    assert [meta["name"] for meta in accounts if "annotations" in meta] == ["gq-runner"]
    assert named(found, "ServiceAccount", "gq-runner")["metadata"]["annotations"] == marks


def test_credentials_of_the_bucket_are_given_to_the_service_and_to_nobody_else():
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/bundles"}
    values = {"bundles": {"url": "s3://bucket/x", "secretName": "bucket", "serviceAccountAnnotations": role}}
    found = objects(values)
    accounts = [each["metadata"] for each in found if each["kind"] == "ServiceAccount"]
    assert [meta["name"] for meta in accounts if "annotations" in meta] == ["gq-service"]
    (service,) = pod_of(found, "Deployment")["containers"]
    assert service["envFrom"] == [{"secretRef": {"name": "bucket"}}]
    assert not any("envFrom" in each for each in pod_of(found, "DaemonSet")["containers"])
    (plain,) = pod_of(objects(), "Deployment")["containers"]
    assert "envFrom" not in plain
