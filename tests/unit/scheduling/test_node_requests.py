"""What owners read about new nodes that their workloads wait for."""

import pytest

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.cluster import NodeRequest
from jupyter_gq.scheduling.scale.node_requests import describe_request

NOW = Instant(10_000.0)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (None, "The cluster is asked for a new node of p."),
        (NodeRequest(since=Instant(NOW + 5)), "A new node of p was asked for a moment ago."),
        (NodeRequest(since=Instant(NOW - 125), sentence="0/3 nodes"), "A new node of p was asked for 2 min ago."),
        (NodeRequest(since=NOW, arriving="n1"), "A new node of p, n1, has come and is being made ready."),
        (NodeRequest(sentence="No such class."), "A new node of p cannot be asked for: No such class."),
        (
            NodeRequest(since=Instant(NOW - 7300), sentence="0/3 nodes are available."),
            "A new node of p was asked for 2 h ago and has not come: the cluster's autoscaler may be at its maximum, "
            "or there is no such machine to be had. The cluster says: 0/3 nodes are available.",
        ),
    ],
)
def test_the_state_of_a_request_in_words(asked, told):
    assert describe_request("p", asked, NOW) == told
