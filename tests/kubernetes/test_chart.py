"""The chart against a real API server: every object, every right, upgrade, rollback, uninstall."""

import secrets
from pathlib import Path

import httpx
import pytest
import yaml
from kubernetes import client

from tests.chart.render import CHART, EXAMPLES, run_helm
from tests.kubernetes.chart import grant_rights, rendered, revoke
from tests.kubernetes.conftest import require_programs
from tests.kubernetes.control_plane import account
from tests.kubernetes.programs import tools_folder
from tests.kubernetes.raw import Raw
from tests.kubernetes.rights import CALLS, FORBIDDEN, HUB, MORE, NODES, TRAIN
from tests.kubernetes.waiting import until

each_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
IMAGE = "registry.example.org/image:1"


@pytest.fixture(scope="module")
def raw(control_plane):
    client = Raw(control_plane)
    yield client
    client.close()


@pytest.fixture(scope="module")
def helm4():
    require_programs("helm4")
    return str(tools_folder() / "helm4")


# --- objects


@pytest.fixture(scope="module")
def service_monitors(raw):
    """The kind exists, as where the Prometheus operator is installed."""
    definition = yaml.safe_load(Path(__file__).with_name("service-monitor.yaml").read_text())
    raw.apply(definition)
    until(lambda: raw.get("/apis/monitoring.coreos.com/v1").is_success, "the kind ServiceMonitor")
    yield
    raw.delete(definition)


@each_example
def test_the_api_server_takes_every_object_under_its_strictest_rules(path, raw, namespace_set, service_monitors):
    found = rendered(namespace_set, path)
    refused = {
        f"{each['kind']} {each['metadata']['name']}": answer.text
        for each in found
        if not (answer := raw.dry_run(each)).is_success
    }
    assert refused == {}
    assert len(found) > 15


def test_a_misspelt_field_would_be_refused(raw, namespace_set):
    service = next(each for each in rendered(namespace_set) if each["kind"] == "Service")
    service["spec"]["sesionAffinity"] = "None"
    assert "sesionAffinity" in raw.dry_run(service).text


@each_example
def test_helm_3_and_helm_4_say_the_same(path, namespace_set, helm4):
    def by_name(found):
        return sorted((each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in found)

    third, fourth = rendered(namespace_set, path), rendered(namespace_set, path, helm=helm4)
    assert by_name(third) == by_name(fourth)
    assert all(each in third for each in fourth)
    done = run_helm("lint", "--strict", str(CHART), "--values", str(path), helm=helm4)
    assert done.returncode == 0, done.stdout + done.stderr


def test_helm_4_refuses_a_typo_too(helm4):
    done = run_helm("template", "gq", str(CHART), "--set", "queues.a.qouta=1", helm=helm4)
    assert done.returncode != 0
    assert "qouta" in done.stderr


def test_the_pods_of_the_chart_may_run_in_their_namespaces(raw, namespace_set):
    found = rendered(namespace_set)
    agent = pod_of(next(each for each in found if each["kind"] == "DaemonSet"))
    # Pod Security applies to pods, not to what makes them. The runtime class is the cluster's own.
    del agent["spec"]["runtimeClassName"]
    rank = next(each for each in found if each["metadata"]["name"] == agent["spec"]["priorityClassName"])
    raw.apply(rank)
    answer = raw.dry_run(agent)
    raw.delete(rank)
    assert answer.is_success, answer.text
    service = pod_of(next(each for each in found if each["kind"] == "Deployment"))
    answer = raw.dry_run(service)
    assert answer.is_success, answer.text
    # Also where a site holds everything to the strictest level.
    service["metadata"]["namespace"] = namespace_set.train
    service["spec"] |= {"serviceAccountName": "gq-runner", "automountServiceAccountToken": False}
    answer = raw.dry_run(service)
    assert answer.is_success, answer.text


def pod_of(maker):
    template = maker["spec"]["template"]
    meta = {**template["metadata"], "name": "one", "namespace": maker["metadata"]["namespace"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}


# --- rights


@pytest.fixture(scope="module")
def rights(raw, namespace_set):
    granted = grant_rights(raw, namespace_set)
    yield
    revoke(raw, granted)


def asked(made, call):
    """Namespace and name that the call is about."""
    namespace = {HUB: made.hub, NODES: made.nodes, TRAIN: made.train}.get(call.room, "")
    return namespace, f"{made.release}-gq-service" if call.name == "lease" else call.name


def test_each_call_of_the_service_is_allowed_and_what_it_must_not_do_is_refused(raw, namespace_set, rights):
    user = namespace_set.service_user
    lacking = [call for call in CALLS if not raw.may(user, call, *asked(namespace_set, call))]
    assert lacking == []
    too_much = [call for call in FORBIDDEN if raw.may(user, call, *asked(namespace_set, call))]
    assert too_much == []


def test_agents_jobs_and_reservations_may_do_nothing(raw, namespace_set, rights):
    made = namespace_set
    for user in (made.agent_user, made.runner_user, account(made.nodes, "gq-reservation")):
        for call in (*CALLS, *MORE["training.asJobs"], *FORBIDDEN):
            assert not raw.may(user, call, *asked(made, call)), (user, call)


@pytest.mark.parametrize("who", ["gq-agent", "gq-reservation", "gq-runner"])
def test_with_the_token_of_such_an_account_every_call_is_refused(control_plane, raw, namespace_set, rights, who):
    made = namespace_set
    namespace = made.train if who == "gq-runner" else made.nodes
    there = training_pod(made.train)
    raw.apply(there)
    pod = f"/api/v1/namespaces/{made.train}/pods/{there['metadata']['name']}"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t"}}
    calls = [
        *(
            ("GET", f"/api/v1/namespaces/{room}/{kind}")
            for room in made.all
            for kind in ("pods", "secrets", "configmaps")
        ),
        *(("POST", f"/api/v1/namespaces/{room}/pods", training_pod(room)) for room in made.all),
        *(("GET", path) for path in ("/api/v1/pods", "/api/v1/nodes", "/api/v1/secrets", "/api/v1/namespaces")),
        ("GET", pod),
        ("DELETE", pod),
        ("PATCH", pod),
        ("GET", f"{pod}/log"),
        ("POST", f"{pod}/exec"),
        ("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{who}/token", {}),
        ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{made.hub}/leases"),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review),
    ]
    them = Raw(control_plane, account(namespace, who))
    answers = {call[:2]: them.ask(*call).status_code for call in calls}
    assert {call: status for call, status in answers.items() if status != 403} == {}
    them.close()
    raw.delete(there)


def test_the_token_that_agents_and_jobs_get_opens_nothing_at_the_api_server(control_plane, namespace_set):
    """It is made for our service, so that a thief cannot even ask whose it is."""
    made = namespace_set
    for namespace, who in ((made.nodes, "gq-agent"), (made.train, "gq-runner")):
        token = control_plane.token(namespace, who, audience="jupyter-gq")
        answer = httpx.get(
            f"{control_plane.url}/api/v1/nodes",
            headers={"Authorization": f"Bearer {token}"},
            verify=str(control_plane.ca_file),
        )
        assert answer.status_code == 401, who


def test_the_service_works_with_its_own_token_and_no_further(control_plane, namespace_set, rights):
    made = namespace_set
    service = Raw(control_plane, made.service_user)
    pod = training_pod(made.train)
    assert service.create(pod).status_code == 201
    assert service.get(f"/api/v1/namespaces/{made.train}/pods/{pod['metadata']['name']}").is_success
    assert service.get("/api/v1/nodes").is_success
    service.delete(pod)
    assert service.create(training_pod(made.hub)).status_code == 403
    assert service.get(f"/api/v1/namespaces/{made.train}/secrets").status_code == 403
    assert service.get("/api/v1/pods").status_code == 403
    service.close()


def training_pod(namespace, name="", image=IMAGE, **spec):
    """A pod that keeps to the restricted level and waits for ever, for no node has its label."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "main", "image": image, "securityContext": security}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name or f"gq-{secrets.token_hex(4)}", "namespace": namespace, "annotations": {}},
        "spec": {
            "nodeSelector": {"jupyter-gq.org/no-such-node": ""},
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            **spec,
        },
    }


# --- the life of an installation


@pytest.fixture
def installed(control_plane, raw):
    """A fresh release in a namespace of its own, installed by Helm as an administrator does it."""
    release = f"gq{secrets.token_hex(3)}"
    hub = f"{release}-hub"
    raw.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": hub}})
    helm = Helm(release, hub, str(control_plane.kubeconfig()))
    helm("install", "--values", str(CHART / "ci/jobs-values.yaml"))
    yield helm
    run_helm("uninstall", release, *helm.place)
    for namespace in (hub, helm.train, helm.nodes):
        control_plane.core.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)
        control_plane.core.delete_namespace(namespace)


class Helm:
    """One release."""

    def __init__(self, release, hub, kubeconfig):
        self.release, self.hub = release, hub
        self.train, self.nodes = f"{release}-gq-train", f"{release}-gq-nodes"
        self.place = ["--namespace", hub, "--kubeconfig", kubeconfig]

    def __call__(self, verb, *options):
        chart = [str(CHART)] if verb in ("install", "upgrade") else []
        done = run_helm(verb, self.release, *chart, *self.place, *options)
        assert done.returncode == 0, done.stderr
        return done.stdout


def test_upgrade_rollback_and_even_uninstall_keep_the_jobs(installed, control_plane, raw):
    core = control_plane.core
    account_of = account(installed.hub, "gq-service")
    job = training_pod(installed.train, "gq-job-1-0", serviceAccountName="gq-runner")
    reservation = training_pod(installed.nodes, "gq-res-a", serviceAccountName="gq-reservation")
    for each in (job, reservation):
        answer = raw.create(each, as_user=account_of)
        assert answer.status_code == 201, answer.text

    def kept():
        """What must never be another one."""
        found = {
            "job": core.read_namespaced_pod("gq-job-1-0", installed.train),
            "reservation": core.read_namespaced_pod("gq-res-a", installed.nodes),
            "checkpoints": core.read_namespaced_persistent_volume_claim(
                f"{installed.release}-gq-checkpoints", installed.train
            ),
            "state": core.read_namespaced_persistent_volume_claim(f"{installed.release}-gq-state", installed.hub),
            "training": core.read_namespace(installed.train),
            "nodes": core.read_namespace(installed.nodes),
        }
        assert not [name for name, one in found.items() if one.metadata.deletion_timestamp]
        return {name: one.metadata.uid for name, one in found.items()}

    before = kept()
    # To other quotas, another image, a database of its own and back, with what that takes away.
    postgresql = ["--values", str(CHART / "ci/postgresql-values.yaml")]
    installed("upgrade", *postgresql, "--set", "image.tag=9.9.9")
    assert kept() == before
    installed("rollback", "1")
    assert kept() == before
    installed("uninstall")
    assert kept() == before
    installed("install", "--values", str(CHART / "ci/jobs-values.yaml"))
    assert kept() == before


def test_a_drain_waits_for_reservations(installed, control_plane, raw):
    core = control_plane.core
    labels = {
        "app.kubernetes.io/name": "jupyter-gq",
        "app.kubernetes.io/component": "gq-reservation",
        "app.kubernetes.io/instance": installed.release,
    }
    for name, marks in (("gq-res-held", labels), ("other", {})):
        pod = training_pod(installed.nodes, name, serviceAccountName="gq-reservation")
        pod["metadata"]["labels"] = marks
        assert raw.create(pod).status_code == 201
        ready = {"type": "Ready", "status": "True"}
        core.patch_namespaced_pod_status(name, installed.nodes, {"status": {"phase": "Running", "conditions": [ready]}})

    def seen():
        policy = client.PolicyV1Api(control_plane.client())
        budget = policy.read_namespaced_pod_disruption_budget(f"{installed.release}-gq-reservation", installed.nodes)
        return budget.status and budget.status.current_healthy == 1 and budget

    budget = until(seen, "the budget counts the reservation")
    assert budget.status.disruptions_allowed == 0
    assert evict(core, "gq-res-held", installed.nodes) == 429
    assert evict(core, "other", installed.nodes) == 201
    # "As a result, the status of the PDB cannot be calculated correctly": for pods of no controller it takes a number.
    reasons = {event.reason for event in core.list_namespaced_event(installed.nodes).items}
    assert "UnmanagedPods" not in reasons


def evict(core, name, namespace):
    """As `kubectl drain` does."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    try:
        core.create_namespaced_pod_eviction(name, namespace, body)
    except client.ApiException as error:
        return error.status
    return 201


# --- who may be the service


def of_the_service(namespace, field="serviceAccountName"):
    pod = training_pod(namespace)
    pod["spec"][field] = "gq-service"
    return pod


def with_its_token(namespace):
    """Kubernetes would write it there, for whoever may read Secrets."""
    meta = {
        "name": "token",
        "namespace": namespace,
        "annotations": {"kubernetes.io/service-account.name": "gq-service"},
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "kubernetes.io/service-account-token"}


def test_the_hub_cannot_become_the_service_and_its_deployment_still_makes_it(installed, control_plane, raw):
    """Zero to JupyterHub's account may make pods and Secrets in the namespace, and read Secrets."""
    hub = account(installed.hub, "hub")
    allowed = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "hub", "namespace": installed.hub}}
    rule = {"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get", "list", "watch", "create", "delete"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hub"}
    subject = {"kind": "ServiceAccount", "name": "hub", "namespace": installed.hub}
    raw.apply({**allowed, "kind": "Role", "rules": [rule]})
    raw.apply({**allowed, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]})
    control_plane.core.create_namespaced_service_account(installed.hub, {"metadata": {"name": "hub"}})

    def answer(wanted):
        return raw.create(wanted, as_user=hub, dryRun="All")

    until(lambda: answer(of_the_service(installed.hub)).status_code == 422, "the policy", every=0.2)
    refused = {
        "pod": answer(of_the_service(installed.hub)),
        "pod, in old words": answer(of_the_service(installed.hub, "serviceAccount")),
        "secret": answer(with_its_token(installed.hub)),
    }
    assert {name: each.status_code for name, each in refused.items()} == dict.fromkeys(refused, 422)
    assert all("as powerful as the GPU nodes" in " ".join(each.text.split()) for each in refused.values())
    other = with_its_token(installed.hub)
    other["metadata"]["annotations"]["kubernetes.io/service-account.name"] = "default"
    plain = {**with_its_token(installed.hub), "type": "Opaque"}
    for free in (training_pod(installed.hub), other, plain):
        assert answer(free).status_code == 201, answer(free).text
    # A new one, now that the policy is in force.
    labels = "app.kubernetes.io/component=gq-service"
    before = {pod.metadata.name for pod in control_plane.core.list_namespaced_pod(installed.hub).items}
    control_plane.core.delete_collection_namespaced_pod(installed.hub, label_selector=labels, grace_period_seconds=0)

    def made_anew():
        found = control_plane.core.list_namespaced_pod(installed.hub, label_selector=labels).items
        return [pod for pod in found if pod.metadata.name not in before]

    (pod,) = until(made_anew, "the Deployment makes its pod")
    assert pod.spec.service_account_name == "gq-service"

    def looked_at():
        read = client.AdmissionregistrationV1Api(control_plane.client()).read_validating_admission_policy
        status = read(f"{installed.release}-gq-account").status
        return status and status.observed_generation and status

    checked = until(looked_at, "the policy's expressions are checked").type_checking
    assert not (checked and checked.expression_warnings)


# --- who may name a GPU


@pytest.fixture(scope="module")
def device_policy(raw, control_plane, namespace_set):
    """In force, in the namespaces of this module alone: other tests go on beside it."""
    made = namespace_set
    found = rendered(made, values=["admissionPolicy.enabled=true"])
    policy = [each for each in found if each["metadata"]["name"] == f"{made.release}-gq-devices"]
    for each in policy:
        if each["kind"].endswith("Binding"):
            rooms = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(made.all)}
            each["spec"]["matchResources"] = {"namespaceSelector": {"matchExpressions": [rooms]}}
        raw.apply(each)
    # Everybody may make pods here, so that only the policy can refuse.
    granted = [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "everybody", "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
                for user in ("mallory", JOB_CONTROLLER, made.hub_user, made.service_user)
            ],
        }
        for namespace in made.all
    ]
    for each in granted:
        raw.apply(each)
    named = named_gpu(training_pod(made.hub), "GPU-1")
    until(lambda: raw.create(named, as_user="mallory", dryRun="All").status_code == 422, "the policy", every=0.2)
    yield
    for each in [*policy, *granted]:
        raw.delete(each)


JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"


def named_gpu(pod, value):
    pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]
    return pod


def annotated(pod):
    pod["metadata"]["annotations"]["cdi.k8s.io/gq"] = "k8s.device-plugin.nvidia.com/gpu=GPU-1"
    return pod


def mounted(pod, folder="/var/run/nvidia-container-devices"):
    pod["spec"]["volumes"] = [{"name": "gpu", "emptyDir": {}}]
    mount = {"name": "gpu", "mountPath": f"{folder}/GPU-1"}
    pod["spec"]["containers"][0]["volumeMounts"] = [mount]
    return pod


def hidden(pod):
    """In a container that runs before the others."""
    pod["spec"]["initContainers"] = [{**pod["spec"]["containers"][0], "name": "first"}]
    named_gpu({"spec": {"containers": pod["spec"]["initContainers"]}}, "all")
    return pod


WAYS = {
    "variable": lambda pod: named_gpu(pod, "GPU-1"),
    "annotation": annotated,
    "mount": mounted,
    # The API keeps a path as it was written, and NVIDIA's runtime cleans it.
    "mount with two slashes": lambda pod: mounted(pod, "/var/run//nvidia-container-devices"),
    "mount by a way round": lambda pod: mounted(pod, "/var/lib/../run/./nvidia-container-devices"),
    "init": hidden,
}


@pytest.mark.parametrize("way", WAYS)
def test_only_the_hub_and_the_service_make_pods_that_name_a_gpu(way, raw, namespace_set, device_policy):
    def answer(user, namespace):
        return raw.create(WAYS[way](training_pod(namespace)), as_user=user, dryRun="All")

    made = namespace_set
    refused = answer("mallory", made.hub)
    assert refused.status_code == 422, refused.text
    assert "Only JupyterHub and jupyter-gq may create pods" in refused.json()["message"]
    assert answer("mallory", made.train).status_code == 422
    assert answer(JOB_CONTROLLER, made.hub).status_code == 422
    for user, namespace in ((made.hub_user, made.hub), (made.service_user, made.train), (JOB_CONTROLLER, made.train)):
        assert answer(user, namespace).status_code == 201, user


def test_others_still_make_pods_that_name_none(raw, namespace_set, device_policy):
    for pod in (training_pod(namespace_set.hub), named_gpu(training_pod(namespace_set.hub), "void")):
        answer = raw.create(pod, as_user="mallory", dryRun="All")
        assert answer.status_code == 201, answer.text


def test_nobody_debugs_their_way_to_a_gpu(raw, namespace_set, device_policy):
    pod = named_gpu(training_pod(namespace_set.hub), "GPU-1")
    assert raw.create(pod, as_user=namespace_set.hub_user).status_code == 201
    container = {"name": "look", "image": IMAGE}
    answer = raw.add_container(pod, container, as_user="mallory")
    assert answer.is_success, "one that names none may come into a notebook that does: " + answer.text
    named = {**container, "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    assert raw.add_container(pod, named, as_user="mallory").status_code == 422
    raw.delete(pod)
