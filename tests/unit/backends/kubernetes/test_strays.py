"""A notebook's pod without a ticket is spoken of when it has stood for a while, and no other pod ever is."""

from dataclasses import replace

import pytest

from jupyter_gq.backends.capabilities import Stray
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.pods.index import PodIndex
from jupyter_gq.backends.kubernetes.runs.strays import Strays

POD = PodView(
    namespace="hub",
    name="jupyter-zoe",
    uid="u",
    node="n1",
    phase="Running",
    labels={names.WORKLOAD: "t-1", names.ATTEMPT: "1"},
    annotations={names.SLOTS: "n1/0,n1/1"},
)
FOUND = [Stray(workload="t-1", pod="hub/jupyter-zoe", node="n1", devices=2)]


class Seen:
    """What was seen of pods until now."""

    def __init__(self):
        self.pods, self.known, self.time = PodIndex(), set(), 0.0
        self.strays = Strays(self.pods, self.known, lambda: self.time, "gq")

    def at(self, time):
        self.time = time
        return self.strays.find()


def test_it_is_named_after_a_minute():
    seen = Seen()
    seen.pods.apply_change(None, POD)
    assert [seen.at(0), seen.at(59), seen.at(60)] == [[], [], FOUND]


def test_a_pod_whose_ticket_is_told_meanwhile_is_none_and_one_that_is_left_later_is_given_its_minute():
    seen = Seen()
    seen.pods.apply_change(None, POD)
    seen.at(0)
    seen.known.add(("t-1", 1))
    assert seen.at(61) == []
    seen.known.clear()
    assert [seen.at(62), seen.at(121), seen.at(122)] == [[], [], FOUND]


@pytest.mark.parametrize("how", [{"phase": "Succeeded"}, {"terminating": True}, {"annotations": {}}])
def test_a_pod_that_ends_is_none_and_so_is_one_that_keeps_no_device(how):
    seen = Seen()
    seen.pods.apply_change(None, replace(POD, **how))
    assert [seen.at(0), seen.at(61)] == [[], []]


@pytest.mark.parametrize(("installation", "found"), [("gq", FOUND), ("other", [])])
def test_a_server_of_another_installation_beside_the_same_hub_is_none(installation, found):
    seen = Seen()
    seen.pods.apply_change(None, replace(POD, labels={**POD.labels, names.INSTALLATION: installation}))
    assert [seen.at(0), seen.at(61)] == [[], found]
