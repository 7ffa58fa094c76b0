"""A pod that must run on one node runs there if it may at all, and nowhere else."""

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.client.pods.pinning import pinned_affinity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES = [{"name": name, "zone": zone} for name in ("n1", "n2", "n3") for zone in ("a", "b")]

_expressions = st.builds(
    lambda operator, zone: {"key": "zone", "operator": operator, "values": [zone]},
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from("ab"),
)
_fields = st.builds(
    lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from(["n1", "n2"]),
)
_terms = st.fixed_dictionaries(
    {}, optional={"matchExpressions": st.lists(_expressions, max_size=2), "matchFields": st.lists(_fields, max_size=2)}
)


def allows(affinity, node):
    """What kube-scheduler does with the required terms of a node affinity."""
    required = (affinity or {}).get(REQUIRED)
    return required is None or any(matches(term, node) for term in required["nodeSelectorTerms"])


def matches(term, node):
    rules = [
        *((node["zone"], each) for each in term.get("matchExpressions") or []),
        *((node["name"], each) for each in term.get("matchFields") or []),
    ]
    return bool(rules) and all((value in rule["values"]) == (rule["operator"] == "In") for value, rule in rules)


@given(st.none() | st.lists(_terms, min_size=1, max_size=3), st.sampled_from(["n1", "n2", "n3"]))
def test_a_pinned_pod_runs_on_its_node_wherever_it_could_before_and_nowhere_else(terms, name):
    """Safety and liveness at once: exactly the nodes of that name that were allowed before."""
    before = None if terms is None else {REQUIRED: {"nodeSelectorTerms": terms}}
    after = pinned_affinity(before, name)
    for node in NODES:
        assert allows(after, node) == (node["name"] == name and allows(before, node))


def test_preferences_stay_and_a_list_without_terms_becomes_one():
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}], REQUIRED: None}
    assert pinned_affinity(preferred, "n1") == {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
        REQUIRED: {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        },
    }
