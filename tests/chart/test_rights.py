"""The service may do what it does, and nothing else."""

import pytest

from tests.chart.render import NAMESPACE, objects
from tests.kubernetes.rights import CALLS, CLUSTER, FORBIDDEN, HUB, MORE, NODES, TRAIN, Call, granted

ROOMS = {NAMESPACE: HUB, "gq-gq-nodes": NODES, "gq-gq-train": TRAIN, "": CLUSTER}


def allowed(values):
    roles = [found for found in objects(values) if found["kind"] in ("Role", "ClusterRole")]
    return {
        call for role in roles for call in granted(role["rules"], ROOMS[role["metadata"].get("namespace", "")])
    }  # fmt: skip


def test_each_call_is_allowed_and_nothing_is_allowed_that_is_no_call():
    assert allowed({}) == set(CALLS)


@pytest.mark.parametrize("value", MORE)
def test_what_a_value_turns_on_is_allowed_only_then(value):
    section, name = value.split(".")
    assert allowed({section: {name: True}}) == {*CALLS, *MORE[value]}
    assert not allowed({}) & set(MORE[value])


def test_what_is_forbidden_is_no_call():
    assert len(FORBIDDEN) >= 10
    assert not set(FORBIDDEN) & set(CALLS)


def test_its_lease_is_the_only_one_that_it_changes():
    role = next(
        found for found in objects() if found["kind"] == "Role" and found["metadata"]["namespace"] == NAMESPACE
    )  # fmt: skip
    assert [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule] == [["gq-gq-service"]]
    assert Call(HUB, "update", "leases", "coordination.k8s.io") not in allowed({})
