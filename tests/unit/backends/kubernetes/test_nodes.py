"""Which slots are offered, and which of them take new work."""

import pytest

from jupyter_gq.backends.kubernetes.api.quantities import quantity
from jupyter_gq.backends.kubernetes.api.views import node_view
from jupyter_gq.backends.kubernetes.nodes.foreign_pods import Others, claims_of
from jupyter_gq.domain.cluster import NEVER_SHARED, SHARE_LABEL
from jupyter_gq.domain.pod_pool import Provider

from .paper import GPU, Paper

SHARES = SHARE_LABEL[0]
MIG = "nvidia.com/mig-1g.10gb"


def healthy(node):
    return [device.healthy for device in node.devices]


def test_a_node_offers_what_its_device_plugin_does():
    node = Paper(gpus=3).offered()
    assert [(device.id, device.index, device.pool) for device in node.devices] == [
        (f"n1/{index}", index, "p") for index in range(3)
    ]
    assert healthy(node) == [True] * 3


def test_where_no_agent_speaks_the_labels_of_the_node_say_what_its_devices_are():
    paper = Paper(gpus=1)
    paper.node(labels={"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.memory": "81559", SHARES: "yes"})
    node = paper.offered()
    assert (node.devices[0].model, node.devices[0].memory) == ("H100", 81559)
    assert SHARES not in node.labels, "that label is ours to give"


@pytest.mark.parametrize("provider", Provider)
@pytest.mark.parametrize(
    ("resource", "labels", "model", "memory"),
    [
        (MIG, {}, "mig-1g.10gb", 0),
        (MIG, {f"{MIG}.product": "A100-MIG-1g.10gb", f"{MIG}.memory": "9856"}, "A100-MIG-1g.10gb", 9856),
        (GPU, {f"{GPU}.product": "A100-MIG-1g.10gb", f"{GPU}.memory": "9856"}, "A100-MIG-1g.10gb", 9856),
    ],
)
def test_slices_of_gpus_are_what_the_labels_say_and_not_the_gpus_that_the_agent_sees(
    provider, resource, labels, model, memory
):
    paper = Paper(gpus=2, provider=provider, resource=resource)
    paper.node(devices={resource: 7}, labels={"nvidia.com/gpu.memory": "81559", **labels})
    paper.report()
    node = paper.offered()
    assert [(device.model, device.memory) for device in node.devices] == [(model, memory)] * 7
    assert paper.nodes.model("n1").memory == memory
    assert NEVER_SHARED in node.labels.items()


def test_shares_go_where_an_agent_speaks():
    paper = Paper()
    paper.report()
    assert paper.offered().labels[SHARES] == "yes"
    paper.clock.at += 61
    assert SHARES not in paper.offered().labels
    paper.report(probe="NO_DRIVER")
    assert SHARES not in paper.offered().labels
    assert healthy(paper.offered()) == [True, True], "whole devices need no agent"


@pytest.mark.parametrize(
    ("change", "takes"),
    [
        ({"ready": False}, False),
        ({"cordoned": True}, False),
        ({"taints": (("gpu", "yes", "NoSchedule"),)}, False),
        ({"taints": (("gpu", "yes", "NoExecute"),)}, False),
        ({"taints": (("gpu", "yes", "PreferNoSchedule"),)}, True),
        ({"taints": (("known", "a", "NoSchedule"),)}, True),
        ({"taints": (("known", "b", "NoSchedule"),)}, False),
    ],
)
def test_a_node_that_keeps_pods_out_takes_nothing_new(change, takes):
    paper = Paper(tolerations=({"key": "known", "value": "a", "effect": "NoSchedule"},))
    paper.node(**change)
    assert healthy(paper.offered()) == [takes, takes]
    assert bool(paper.offered().closed) is not takes, "for tasks without devices, too"
    assert paper.offered().draining is (change == {"cordoned": True})


def test_why_a_node_takes_nothing_new_is_said():
    paper = Paper()
    paper.node(cordoned=True)
    assert paper.offered().closed == "n1 is cordoned"
    paper.node(cordoned=False, taints=(("gpu", "yes", "NoSchedule"),))
    assert paper.offered().closed == "n1 has the taint gpu, which the pool p does not tolerate"
    paper.node(taints=())
    paper.nodes.back_off.add("n1", "It failed.")
    assert paper.offered().closed == "n1 pauses after a failure"
    paper.nodes.back_off.clear("n1")
    paper.report([("other", "GPU-0::2")])
    assert paper.offered().closed.startswith("The device plugin of the node n1 shares devices (GPU-0::2)")


def test_what_was_offered_stays_on_the_books():
    paper = Paper(gpus=2)
    paper.offered()
    paper.node(devices={GPU: 1})
    assert healthy(paper.offered()) == [True, False]
    assert healthy(Paper(gpus=1).offered(used=["n1/2"])) == [False, False, True], "the only device is in use"


def test_pods_of_others_take_free_slots_and_blocked_ones_take_nothing():
    paper = Paper(gpus=3)
    paper.report([("other", "GPU-0")])
    paper.agents._reports["n1"].allocations[0].namespace = "elsewhere"
    assert healthy(paper.offered(used=["n1/2"])) == [True, False, True]
    assert healthy(Paper().offered(blocked=["n1/0"])) == [False, True]


def test_hami_offers_several_of_each_device_and_its_agent_counts_them():
    paper = Paper(gpus=2, provider=Provider.HAMI)
    paper.node(devices={GPU: 20})
    assert paper.offered().devices == ()
    assert paper.offered().closed == "n1 has no agent that tells its GPUs, and for hami nobody else counts them"
    paper.report()
    assert len(paper.offered().devices) == 2
    assert paper.offered().closed == ""


def test_pauses_double_and_are_forgotten_when_something_runs():
    paper = Paper()
    pauses = []
    for _ in range(7):
        paper.nodes.back_off.add("n1", "why")
        paper.nodes.back_off.add("n1", "once more, of the same")
        pauses.append(paper.nodes.back_off.until("n1") - paper.clock.at)
        assert healthy(paper.offered()) == [False, False]
        paper.clock.at += pauses[-1] + 1
        assert healthy(paper.offered()) == [True, True]
    assert pauses == [20, 40, 80, 160, 320, 600, 600]
    paper.nodes.back_off.clear("n1")
    paper.nodes.back_off.add("n1", "why")
    assert paper.nodes.back_off.until("n1") - paper.clock.at == 20


def test_a_node_is_lost_after_a_while_not_at_once():
    paper = Paper()
    paper.node(ready=False, message="kubelet stopped posting")
    assert paper.nodes.lost("n1") == ""
    paper.clock.at += 61
    assert paper.nodes.lost("n1") == "The node n1 has not answered for 61 s: kubelet stopped posting."
    paper.nodes.restart_clocks()
    assert paper.nodes.lost("n1") == "", "while the API server was away it could not say that it lives"
    paper.node(ready=True)
    paper.clock.at += 100
    assert paper.nodes.lost("n1") == ""


def test_an_unchanged_node_is_the_same_object():
    paper = Paper()
    assert paper.offered() is paper.offered()


def test_a_node_is_read_from_what_the_api_says():
    view = node_view(
        {
            "metadata": {"name": "n", "resourceVersion": "12", "labels": {"a": "b"}},
            "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "7500m", "memory": "64Gi", GPU: "8", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "Unknown", "message": "m"}],
            },
        }
    )
    assert (view.cpu_milli, view.memory_mib, view.devices) == (7500, 65536, {GPU: 8})
    assert (view.ready, view.cordoned, view.taints, view.message) == (False, True, (("k", "", "NoSchedule"),), "m")


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("100m", 0.1), ("1Gi", 2**30), ("2k", 2000), ("1e3", 1000), ("", None), ("x", None)]
)
def test_quantities(text, value):
    found = quantity(text)
    assert (None if found is None else float(found)) == value


def test_what_others_ask_for_is_not_there_for_us():
    def pod(name, labels=None, node="n1", version="1"):
        asked = [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}, {}]
        first = [{"resources": {"requests": {"cpu": "2", "memory": "10Mi"}}}]
        return {
            "metadata": {"name": name, "namespace": "x", "resourceVersion": version, "labels": labels or {}},
            "spec": {"nodeName": node, "containers": asked, "initContainers": first},
        }

    ours = {"jupyter-gq.org/installation": "gq", "app.kubernetes.io/component": "gq-training"}
    others = Others()
    for each in (pod("a"), pod("b"), pod("task", ours), pod("nowhere", node="")):
        others.apply_change(None, claims_of(each, "gq"))
    assert others.on("n1") == (4000, 2048)
    others.apply_change(claims_of(pod("b"), "gq"), None)
    paper = Paper()
    paper.node(cpu_milli=8000, memory_mib=4096)
    paper.nodes.used_by_others = others.on
    assert (paper.offered().cpu_milli, paper.offered().memory) == (6000, 3072)
    assert (paper.offered().cpu_by_others, paper.offered().memory_by_others) == (2000, 1024)


def asks(cpu, **more):
    return {"resources": {"requests": {"cpu": cpu}}, **more}


SIDECAR = asks("1", restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "milli"),
    [
        ({"containers": [asks("2")], "initContainers": [SIDECAR, SIDECAR]}, 4000),
        ({"containers": [asks("2")], "initContainers": [SIDECAR, asks("5")]}, 6000),
        ({"containers": [asks("2")], "initContainers": [asks("5"), SIDECAR]}, 5000),
        (
            {"containers": [asks("2")], "initContainers": [asks("4"), SIDECAR], **asks("7"), "overhead": {"cpu": "1"}},
            8000,
        ),
        ({"containers": [asks("2")], "resources": {"requests": {"memory": "1Gi"}}}, 2000),
    ],
)
def test_sidecars_run_beside_all_others_and_the_amount_of_a_pod_takes_the_place_of_its_containers(spec, milli):
    assert claims_of({"spec": {"nodeName": "n1", **spec}}, "gq").cpu_milli == milli


def test_a_device_that_is_ours_is_not_counted_for_an_ended_pod_that_the_kubelet_still_lists():
    paper = Paper()
    paper.report([("gq-res-x", "GPU-0")], others=[("done-job", "GPU-0")])
    assert healthy(paper.offered(used=["n1/0"])) == [True, True]
    paper.report([("gq-res-x", "GPU-0")], others=[("done-job", "GPU-0"), ("theirs", "GPU-1")])
    assert healthy(paper.offered(used=["n1/0"])) == [True, False]


def test_no_slot_opens_for_a_device_that_the_agent_cannot_name():
    """The agent began beside a lost GPU, which the device plugin still offers, or offers no more."""
    paper = Paper(gpus=2)
    paper.report()
    assert healthy(paper.offered()) == [True] * 2
    paper.gpus, nameless = 1, {"devices": "The driver counts one more."}
    paper.report(missing=nameless)
    assert healthy(paper.offered()) == [True, False]
    paper.node(devices={GPU: 1})
    assert healthy(paper.offered()) == [True, False], "it has failed, and the machine has it still"
    paper.report()
    assert healthy(paper.offered()) == [True]


def test_slots_go_once_device_plugin_and_agent_know_no_more_devices():
    paper = Paper(gpus=3)
    paper.report()
    assert healthy(paper.offered()) == [True] * 3
    paper.node(devices={GPU: 2})
    assert healthy(paper.offered()) == [True, True, False], "the agent still lists it: it has failed"
    paper.gpus = 2
    paper.report()
    assert healthy(paper.offered(used=["n1/2"])) == [True, False, True], "work runs there"
    assert len(paper.offered(blocked=["n1/2"]).devices) == 3, "something holds a device there"
    assert healthy(paper.offered()) == [True, True]
    paper.node(devices={})
    assert healthy(paper.offered()) == [False, False], "the device plugin starts again"
