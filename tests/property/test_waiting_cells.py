"""Whatever is on the devices of suspended notebooks: each cell that waits has a place and an estimate, or a reason.

Unlike in `test_lending`, work is on lent devices that cannot give way. No cycle puts it there, but people do: they
change the settings of queues, and pods come back that were thought to be gone.
"""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import KeptOut
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, a_notebook, idle, running
from tests.property import loans
from tests.property.clusters import among
from tests.property.histories import random_worlds
from tests.unit.controller.test_suspension_views import WAITS, WITHIN, a_record, suspension_sentence, suspension_view

DEVICES = ("n-0", "n-1", "gone-0")
PARTS = ("0.25", "0.5", "0.5", "0.75", "1")


@st.composite
def crowds(draw: st.DrawFn) -> Snapshot:
    """Suspended notebooks, most of them wanted, and work of all kinds on their devices."""
    cluster = Cluster().node("n", 2).fixed("train", **dict.fromkeys(("ann", "bob", "eve", "mia"), "1")).queue("z", "2")
    for number, owner in enumerate(("ann", "bob", "eve", "mia")[: draw(st.integers(1, 4))]):
        notebook = running(a_notebook(owner, draw(among(*PARTS))), draw(among(*DEVICES, *DEVICES[:2])))
        state = draw(among(State.SUSPENDED, State.SUSPENDED, State.SUSPENDED, State.RESUMING, State.RUNNING))
        busy = draw(among(True, True, False))
        cluster.add(replace(idle(notebook, 4000, busy=busy), state=state, suspendable=True, submitted_at=float(number)))
    for name in "jkl"[: draw(st.integers(0, 3))]:
        job = a_job(name, "z", draw(among(*PARTS)), preemptible=draw(st.booleans()))
        cluster.add(running(job, draw(among(*DEVICES[:2]))))
    snapshot = cluster.snapshot()
    lost = draw(among("", "", "", "n-1"))
    nodes = tuple(
        replace(node, devices=tuple(replace(each, healthy=each.id != lost) for each in node.devices))
        for node in snapshot.nodes
    )
    unobserved = draw(among((), (), (), (Kind.NOTEBOOK,), (Kind.TRAINING,)))
    return replace(snapshot, nodes=nodes, unobserved=unobserved)


@random_worlds
@given(crowds())
def test_each_cell_that_waits_has_a_place_and_an_estimate_or_a_true_reason(snapshot):
    decision = run_cycle(snapshot, Policy(consolidate=False), NOW)
    loans.every_cell_that_waits_has_an_honest_plan(snapshot, decision)
    by_id = {workload.id: workload for workload in snapshot.workloads}
    for plan in decision.returning:
        view, sentence = _told(by_id[plan.workload], plan)
        if plan.is_coming:
            assert view.position == plan.ahead + 1
            assert view.back_within is not None
        else:
            assert view.position is None
            assert view.back_within is None
            # What does not work is told as trouble of the notebook, next to its sentence.
            assert plan.kept_out is KeptOut.UNUSABLE or len(sentence) > len(WAITS), sentence


def _told(notebook: Workload, plan):
    """Return the view of a suspension and its sentence."""
    record = replace(a_record(State.SUSPENDED), workload=notebook)
    within = Seconds(60) if plan.is_coming else None
    comeback = replace(WITHIN, plan=plan, within=within, left=within)
    return suspension_view(record, comeback), suspension_sentence(record, comeback)
