"""A real JupyterHub with the spawner, on a real API server. The service says what it is told."""

import asyncio
import contextlib

import pytest
from kubernetes import client as k8s

from tests.hub.real_hub import Person, RealHub, eventually
from tests.hub.scripted_service import ScriptedService, ticket, waiting
from tests.patience import scaled

pytestmark = pytest.mark.asyncio

#: What the Hub's account may do with Zero to JupyterHub.
_RULES = [
    {
        "apiGroups": [""],
        "resources": ["pods", "persistentvolumeclaims", "secrets", "services"],
        "verbs": ["get", "watch", "list", "create", "delete"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "watch", "list"]},
]
_GIVES_UP = "never recovered, giving up"
_CONFIG = """
c.JupyterHub.spawner_class = "jupyter_gq.hub.kubernetes.spawner.GQKubeSpawner"
c.JupyterHub.tornado_settings = {{"slow_spawn_timeout": {slow}}}
c.KubeSpawner.namespace = {namespace!r}
c.KubeSpawner.image = "tests/notebook"
c.KubeSpawner.ip = "$(POD_IP)"
c.KubeSpawner.environment = {{"POD_IP": {{"valueFrom": {{"fieldRef": {{"fieldPath": "status.podIP"}}}}}}}}
c.KubeSpawner.start_timeout = {start_timeout}
c.KubeSpawner.poll_interval = 1
c.KubeSpawner.k8s_api_request_retry_timeout = 5
def hurry(spawner):
    spawner.start_timeout = 3 if spawner.user.name == "uma" else {start_timeout}
c.KubeSpawner.pre_spawn_hook = hurry
c.KubeSpawner.profile_list = [
    {{"slug": "small", "display_name": "Small", "gpus": "0.25"}},
    {{"slug": "odd", "display_name": "Odd", "kubespawner_override": {{"extra_labels": {{"no label!": "x"}}}}}},
]
"""


@pytest.fixture(scope="module")
def node(make_kubelet):
    return make_kubelet("gpu-a", gpus=2)


@pytest.fixture(scope="module")
def service():
    with ScriptedService() as service:
        yield service


@pytest.fixture(scope="module")
def hub(control_plane, namespace_set, node, service, tmp_path_factory):
    rights = k8s.RbacAuthorizationV1Api(control_plane.client())
    named = {"metadata": {"name": "hub"}}
    rights.create_namespaced_role(namespace_set.hub, {**named, "rules": _RULES})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hub"}
    subject = {"kind": "ServiceAccount", "name": "hub", "namespace": namespace_set.hub}
    rights.create_namespaced_role_binding(namespace_set.hub, {**named, "roleRef": reference, "subjects": [subject]})
    # A refusal that takes longer than a slow spawn is no answer to the request any more.
    times = {"slow": round(scaled(1)), "start_timeout": round(scaled(60))}
    more = _CONFIG.format(namespace=namespace_set.hub, **times)
    hub = RealHub(tmp_path_factory.mktemp("hub"), service, more=more)
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("KUBECONFIG", str(control_plane.kubeconfig(namespace_set.hub_user)))
            hub.start()
            yield hub
        assert hub.exit_code() is None, f"the hub ended during the tests: {hub.log.read_text()[-3000:]}"
    finally:
        hub.end()


class Pods:
    """The pods of the Hub's namespace, as an administrator sees them."""

    def __init__(self, plane, namespace):
        self.core, self.namespace = plane.core, namespace

    def of(self, user):
        """The pod of this user's default server, None while there is none."""
        with contextlib.suppress(k8s.ApiException):
            return self.core.read_namespaced_pod(f"jupyter-{user}", self.namespace)
        return None

    def make(self, user):
        """One that has the name of this user's default server."""
        container = {"name": "notebook", "image": "tests/notebook", "command": ["sleep", "1000"]}
        labels = {"component": "singleuser-server"}
        body = {"metadata": {"name": f"jupyter-{user}", "labels": labels}, "spec": {"containers": [container]}}
        self.core.create_namespaced_pod(self.namespace, body)

    def evict(self, user):
        body = {"metadata": {"name": f"jupyter-{user}", "namespace": self.namespace}}
        self.core.create_namespaced_pod_eviction(f"jupyter-{user}", self.namespace, body)


@pytest.fixture
def pods(control_plane, namespace_set):
    return Pods(control_plane, namespace_set.hub)


def carried(node="gpu-a", attempt=1):
    """What the service says that a pod with a quarter must carry."""
    return {
        "node": node,
        "environment": {"NVIDIA_VISIBLE_DEVICES": "GPU-held", "JUPYTER_GQ_GPUS": "0.25"},
        "labels": {"jupyter-gq.org/workload": "nb-1", "jupyter-gq.org/attempt": str(attempt)},
        "annotations": {"jupyter-gq.org/slot": f"{node}/0"},
    }


def placed(attempt=1, **where):
    return ticket(pod=carried(attempt=attempt, **where))


def grant(service, user):
    """Admitted at once, with what the pod must carry."""
    service.scripts[user].expect("POST tickets", placed())
    service.scripts[user].expect("GET tickets/*", placed())


async def test_a_share_waits_for_its_device_then_its_pod_carries_it(hub, service, pods):
    preparing = ticket(sentence="The device is being reserved.")
    service.scripts["ann"].expect("POST tickets", waiting(1))
    service.scripts["ann"].expect("GET tickets/*", waiting(0), preparing)
    reserved = {preparing["sentence"]: lambda: service.scripts["ann"].expect("GET tickets/*", placed())}
    async with Person(hub, "ann") as ann:
        await ann.start({"profile": "small"})
        events = await ann.progress(then=reserved)
        said = [event["message"] for event in events]
        assert any("The device is being reserved." in each for each in said)
        progress = [event["progress"] for event in events if "progress" in event]
        assert progress == sorted(progress)
        assert await ann.ready()
        pod = pods.of("ann")
        assert pod.spec.node_name == "gpu-a"
        assert pod.metadata.labels["jupyter-gq.org/workload"] == "nb-1"
        assert pod.metadata.annotations["jupyter-gq.org/slot"] == "gpu-a/0"
        await ann.log_in()
        environment = (await ann.told())["environment"]
        assert environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-held"
        assert "CUDA_VISIBLE_DEVICES" not in environment
        assert environment["JUPYTER_GQ_TICKET"] == "nb-1"
        assert not service.of("ann", "PUT"), "there is no process to attach: the service sees the pod"
        assert not service.of("ann", "DELETE")
        await ann.stop()
        await eventually(lambda: service.of("ann", "DELETE tickets/*"))
        assert pods.of("ann") is None


async def test_another_place_is_tried_when_the_cluster_refuses_one(hub, service, pods):
    """Twice: the third place has room. The share is never given back meanwhile."""
    gone, refused = placed(1, node="gone-1"), "Node gone-1 has no room left."

    def answer(*tickets):
        return lambda: service.scripts["bob"].expect("GET tickets/*", *tickets)

    service.scripts["bob"].expect("POST tickets", gone)
    answer(gone)()
    then = {
        "[Warning] 0/": answer(waiting(0, sentence=refused)),
        refused: answer(*[placed(2, node="gone-2")] * 3, placed(3)),
    }
    async with Person(hub, "bob") as bob:
        await bob.start({"gpus": "0.25"})
        said = [event["message"] for event in await bob.progress(then=then)]
        assert any("Node gone-1 has no room left." in each for each in said)
        assert any("[Warning] 0/" in each for each in said), "what Kubernetes tells of the pod is shown as well"
        assert await bob.ready()
        assert pods.of("bob").metadata.labels["jupyter-gq.org/attempt"] == "3"
        assert not service.of("bob", "DELETE")
        await bob.stop()


async def test_after_three_places_the_start_is_refused_and_nothing_is_left(hub, service, pods):
    service.scripts["cem"].expect("POST tickets", placed(node="gone-1"))
    moved = [[waiting(0, sentence="No room."), *[placed(attempt, node="gone-2")] * 5] for attempt in (2, 3)]
    service.scripts["cem"].expect("GET tickets/*", *moved[0], *moved[1], waiting(0, sentence="No room."))
    async with Person(hub, "cem") as cem:
        await cem.spawn({"gpus": "0.25"})
        events = await cem.progress()
        assert "asked 3 times for a place with 0.25 GPU and refused. No room." in events[-1]["message"]
        await eventually(lambda: pods.of("cem") is None)
        assert service.of("cem", "DELETE tickets/*")


async def test_a_pod_of_the_same_name_makes_room_and_the_share_stays(hub, service, pods):
    """KubeSpawner stops it, in the middle of the start of its successor."""
    pods.make("dan")
    grant(service, "dan")
    async with Person(hub, "dan") as dan:
        await dan.start({"gpus": "0.25"})
        await eventually(dan.ready)
        assert pods.of("dan").metadata.labels["jupyter-gq.org/workload"] == "nb-1"
        assert not service.of("dan", "DELETE")
        pods.evict("dan")
        await eventually(dan.gone)
        await eventually(lambda: service.of("dan", "DELETE tickets/*"))
        await dan.log_in()
        page = (await dan.browser.get("/hub/spawn/dan")).text
        assert "an administrator drained its node" in page
        assert "As the profile says" in page
        assert '"small": {"gpus": "0.25"' in page, "the cards follow the chosen profile"


@pytest.mark.parametrize("gpus", ["0.25", "0"])
async def test_while_an_older_pod_has_not_ended_there_is_no_second_one(hub, service, pods, node, gpus):
    """Its node is silent, and it may still write to the home that the second one would have too."""
    pods.make("uma")
    grant(service, "uma")
    async with Person(hub, "uma") as uma:
        await eventually(lambda: pods.of("uma").status.phase == "Running")
        older = pods.of("uma").metadata.uid
        node.hang()
        try:
            answer = await uma.spawn({"gpus": gpus})
            events = [] if answer.is_error else await uma.progress()
            told = answer.text if answer.is_error else events[-1]["message"]
            assert "earlier pod on gpu-a cannot be removed yet. Try again in a few minutes." in told
            assert pods.of("uma").metadata.uid == older
            assert await eventually(uma.gone)
        finally:
            node.go_on()
        await eventually(lambda: pods.of("uma") is None)


async def test_what_the_cluster_says_no_to_is_told_without_the_servers_token(hub, service):
    async with Person(hub, "leo") as leo:
        answer = await leo.spawn({"profile": "odd"})
        assert answer.status_code == 403
        assert "The cluster refused to start the server" in answer.json()["message"]
        assert "no label!" in answer.json()["message"]
        await eventually(lambda: service.of("leo", "DELETE tickets/*"))
        assert "JUPYTERHUB_API_TOKEN" not in hub.log.read_text()


async def test_a_start_that_is_cancelled_leaves_no_pod(hub, service, pods):
    service.scripts["ida"].expect("POST tickets", placed(node="gone-1"))
    service.scripts["ida"].expect("GET tickets/*", placed(node="gone-1"))
    async with Person(hub, "ida") as ida:
        await ida.start({"gpus": "0.25"})
        await eventually(lambda: pods.of("ida"))
        await ida.stop()
        await eventually(lambda: pods.of("ida") is None)
        await eventually(lambda: service.of("ida", "DELETE tickets/*"))


async def test_the_api_server_away_for_longer_than_kubespawner_bears(hub, service, pods, control_plane):
    """Its reflectors give up after 51 s. Servers run on, starts are refused with a sentence, and then all is well."""
    for user in ("eva", "fay", "gil"):
        grant(service, user)
    async with Person(hub, "eva") as eva, Person(hub, "fay") as fay, Person(hub, "gil") as gil:
        for person in (eva, fay):
            await person.start({"gpus": "0.25"})
            await eventually(person.ready)
        gave_up = hub.log.read_text().count(_GIVES_UP)
        control_plane.stop_api()
        try:
            for _ in range(6):  # one more than the failures in a row after which the Hub exits
                answer = await gil.spawn({"gpus": "0.25"})
                assert answer.status_code == 503
                assert "The cluster does not answer" in answer.json()["message"]
            await fay.stop()  # the Hub holds it for stopped; its pod is deleted when that can be
            await eventually(lambda: hub.log.read_text().count(_GIVES_UP) >= gave_up + 2, every=0.5)
            assert (await gil.spawn({"gpus": "0.25"})).status_code == 503
            assert await eva.ready()
        finally:
            control_plane.start_api()
            control_plane.restart_followers()
        assert await eva.ready(), "a server was forgotten"
        await eventually(lambda: pods.of("fay") is None)
        await gil.start({"gpus": "0.25"})
        await eventually(gil.ready)
        for person, user in ((eva, "eva"), (gil, "gil")):
            await person.stop()
            await eventually(person.gone)
            assert pods.of(user) is None


async def test_a_hub_that_starts_while_the_api_server_is_away(hub, service, pods, control_plane):
    """It forgets no server, and looks again once it can: KubeSpawner keeps a view whose first look failed."""
    for user in ("jan", "kai"):
        grant(service, user)
    async with Person(hub, "jan") as jan, Person(hub, "kai") as kai:
        await jan.start({"gpus": "0.25"})
        await eventually(jan.ready)
        hub.kill()
        control_plane.stop_api()
        try:
            await asyncio.to_thread(hub.start)
            assert await eventually(jan.ready), "a server was forgotten"
            assert (await kai.spawn({"gpus": "0.25"})).status_code == 503
        finally:
            control_plane.start_api()
            control_plane.restart_followers()

        async def started():
            return (await kai.spawn({"gpus": "0.25"})).is_success

        await eventually(started, every=1)
        await eventually(kai.ready)
        for person, user in ((jan, "jan"), (kai, "kai")):
            await person.stop()
            await eventually(person.gone)
            assert pods.of(user) is None
            assert service.of(user, "DELETE tickets/*"), "the share was not given back"
