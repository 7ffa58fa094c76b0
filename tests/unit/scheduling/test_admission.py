"""What is asked before something is queued."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import MiB, MilliGpu
from jupyter_gq.domain.cluster import NEVER_SHARED, SHARE_LABEL
from jupyter_gq.domain.errors import NeverFits, QuotaExceeded
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.workload import Kind, Request
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.preview.admission import check_fits, check_fixed_quota
from tests.builders import NOW, Cluster, a_job, a_node, a_notebook, running, stopping
from tests.outlooks import preview


def box(*workloads):
    cluster = Cluster().pools("box", build=1, train=1).fixed(ann="0.5", bob="0.25")
    return cluster.queue("vision", "0.5").queue("nlp", "0.5").add(*workloads).snapshot()


def test_a_second_server_beyond_the_fixed_quota_is_refused_with_who_holds_it():
    first = running(a_notebook("bob", "0.25"), "box-0")
    with pytest.raises(QuotaExceeded) as caught:
        check_fixed_quota(box(first), a_notebook("bob", "0.25", name="second"))
    assert (caught.value.requested, caught.value.quota, caught.value.used) == ("0.25", "0.25", "0.25")
    assert reveal(*caught.value.holders) == "bob's server (0.25 GPU)"


def test_what_still_waits_counts():
    with pytest.raises(QuotaExceeded):
        check_fixed_quota(box(a_notebook("bob")), a_notebook("bob", name="second"))


def test_what_is_stopping_does_not_count():
    check_fixed_quota(box(stopping(running(a_notebook("bob"), "box-0"))), a_notebook("bob", name="second"))


def test_the_same_ticket_asked_again_is_not_counted_against_itself():
    check_fixed_quota(box(a_notebook("bob")), a_notebook("bob"))


def test_up_to_the_quota_is_granted_and_one_thousandth_more_is_not():
    check_fixed_quota(box(), a_notebook("ann", "0.5"))
    with pytest.raises(QuotaExceeded):
        check_fixed_quota(box(), a_notebook("ann", "0.501"))


def test_without_a_gpu_there_is_nothing_to_count():
    check_fixed_quota(box(a_notebook("bob")), a_notebook("bob", 0, name="cpu"))
    check_fixed_quota(box(), a_notebook("stranger", 0))
    with pytest.raises(QuotaExceeded):
        check_fixed_quota(box(), a_notebook("stranger", "0.25"))


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (a_job("j", "vision", 2), "You asked for 2 GPUs, but no node of the pool train has more than 1 GPU. "),
        (a_job("j", "vision", 1, tasks=2), "2 tasks of 1 GPU that start together, but the pool train has room for 1"),
        (a_job("j", "vision", 1, preemptible=False), "cannot be paused, but the quota of vision is 0.5 GPU"),
        (a_notebook("ann", "0.75"), "your fixed quota is 0.5 GPU"),
    ],
)
def test_what_can_never_fit_is_refused_with_the_bound(job, message):
    with pytest.raises(NeverFits, match=message):
        check_fits(box(), job)


def of_zeros(*workloads):
    """Queues that may have nothing, and a user whose fixed quota is 0."""
    cluster = Cluster().pools("box", build=1, train=1).fixed(ann="0.5", bob="0")
    cluster.queue("idle", limit=MilliGpu(0)).queue("host", cpu_limit=0, memory_limit=MiB(0)).queue("none")
    return cluster.add(*workloads).snapshot()


@pytest.mark.parametrize(
    ("job", "advice"),
    [
        (a_job("j", "idle", "0.5"), "the limit of idle is 0 GPU. Ask for none, or ask your administrator for more."),
        (a_notebook("bob", "0.5"), "your fixed quota is 0 GPU. Ask for none, or ask your administrator for more."),
        (a_job("j", "none", preemptible=False), "the quota of none is 0 GPU. Ask for none, or"),
        (replace(a_job("j", "host"), request=Request(devices=0, cpu_milli=500)), "0 CPU cores. Ask for none, or"),
        (replace(a_job("j", "host"), request=Request(devices=0, memory=MiB(500))), "0 MiB of memory. Ask for none, or"),
    ],
)
def test_nobody_is_told_to_ask_for_nothing_or_less(job, advice):
    with pytest.raises(NeverFits) as refused:
        check_fits(of_zeros(), job)
    assert advice in str(refused.value)


@pytest.mark.parametrize(
    ("there", "asked", "advice"),
    [
        ((), a_notebook("bob", "0.5"), "0 of it is in use. Choose no GPU, or ask your administrator for more."),
        ((), a_notebook("ann", "0.75"), "0 of it is in use. Choose less, or ask your administrator for more."),
        (
            ("0.5",),
            a_notebook("ann", "0.25", name="b"),
            "(your server (0.5 GPU)). Stop one of those, or choose no GPU.",
        ),
        (("0.25",), a_notebook("ann", "0.5", name="b"), "(your server (0.25 GPU)). Stop one of those, or choose less."),
    ],
)
def test_less_is_advised_only_if_less_can_be_had(there, asked, advice):
    with pytest.raises(QuotaExceeded) as refused:
        check_fixed_quota(of_zeros(*(running(a_notebook("ann", each), "box-0") for each in there)), asked)
    assert reveal(str(refused.value)).replace("ann's", "your").endswith(advice)


def test_a_part_of_what_is_a_slice_already_is_refused_at_once_and_a_whole_one_is_not():
    share = replace(a_job("j", "vision", "0.5"), request=replace(Request.of(500), node_labels=(SHARE_LABEL,)))
    check_fits(box(), share)  # its node cannot share now, and may do so again

    def sliced(*nodes):
        return [replace(node, labels=dict([NEVER_SHARED])) for node in nodes]

    snapshot = box()
    check_fits(replace(snapshot, nodes=(*snapshot.nodes, *sliced(a_node("m", 1, "train")))), share)
    snapshot = replace(snapshot, nodes=tuple(sliced(*snapshot.nodes)))
    with pytest.raises(NeverFits, match=r"devices of the pool train are slices of GPUs .* Ask for 1, which is one"):
        check_fits(snapshot, share)
    check_fits(snapshot, a_job("j", "vision", 1))


def test_a_limit_above_is_a_bound_too():
    cluster = Cluster().node("n", 4).queue("d", 2, limit=2).queue("d/a", 1, parent="d")
    check_fits(cluster.snapshot(), a_job("j", "d/a", 2))
    with pytest.raises(NeverFits, match="the limit of d is 2 GPUs"):
        check_fits(cluster.snapshot(), a_job("j", "d/a", 3))


def test_what_fits_once_others_are_gone_is_not_refused():
    check_fits(box(running(a_job("busy", "nlp"), "box-1")), a_job("j", "vision", 1))
    check_fits(box(), a_job("j", "vision", "0.5", tasks=2))
    check_fits(box(), a_job("j", "vision", 0))


def test_a_pool_without_devices_says_so():
    with pytest.raises(NeverFits, match="the pool train has no GPU"):
        check_fits(Cluster().node("n", 1, pool="build").queue("q", 1).snapshot(), a_job("j", "q"))


def test_while_nobody_knows_what_nodes_there_are_only_limits_and_quotas_count():
    snapshot = replace(Cluster().queue("q", 0, limit="2").snapshot(), unobserved=(Kind.TRAINING,))
    check_fits(snapshot, a_job("big", "q", 2))
    with pytest.raises(NeverFits, match="the limit of q is 2 GPUs"):
        check_fits(snapshot, a_job("huge", "q", 3))


def test_a_preview_says_that_it_starts_now_and_what_may_be_taken_back():
    outlook = preview(box(), Policy(), NOW, a_job("digits", "vision"))
    assert outlook.starts_now
    assert outlook.over_quota == 500
    assert (
        outlook.sentence == "Starts now, 0.5 GPU over your queue's quota; may be paused when nlp needs its GPUs back."
    )
    assert preview(box(), Policy(), NOW, a_job("x", "vision", "0.5")).sentence == "Starts now, within the quota."
    assert preview(box(), Policy(), NOW, a_notebook("ann")).sentence == "Starts now."


def test_a_preview_of_what_would_wait_says_where_and_why():
    held = running(a_job("digits", "vision"), "box-1")
    outlook = preview(box(held, a_job("first", "vision")), Policy(), NOW, a_job("more", "vision", submitted=9))
    assert not outlook.starts_now
    assert outlook.position == 2
    assert reveal(outlook.sentence) == (
        "Would wait: vision uses 1 of its 0.5 guaranteed GPU and no device is idle; ann's digits (1 GPU) is in the way."
        " As things stand, it would run 1 GPU over your queue's quota; may be paused when nlp needs its GPUs back."
    )


def test_a_preview_of_what_others_would_give_way_to_says_who():
    held = running(a_job("digits", "vision"), "box-1")
    outlook = preview(box(held), Policy(), NOW, a_job("bert", "nlp", "0.5", owner="bob"))
    assert outlook.why.reason is PendingReason.WAITS_FOR_EVICTION
    assert (
        reveal(outlook.sentence)
        == "Starts soon: its room is kept; it starts as soon as ann's digits (1 GPU) has stopped."
    )
