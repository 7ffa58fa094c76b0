"""A pod that loses a label or an annotation of ours while it runs counts as before until it is gone."""

import logging
from dataclasses import replace

import pytest

from jupyter_gq.backends.kubernetes.api.reflector import Copy
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.pods.index import PodIndex
from jupyter_gq.backends.kubernetes.pods.marks import MarkKeeper, is_of_installation, is_server, list_lost_marks
from jupyter_gq.domain.states import State

from .paper_backend import PaperBackend

LABELS = {names.INSTALLATION: "gq", names.WORKLOAD: "job-1", names.ATTEMPT: "2", names.TASK: "1"}
ANNOTATIONS = {names.SLOTS: "n1/0", names.DEVICES: "GPU-1"}
POD = PodView(
    namespace="train",
    name="gq-job-1",
    uid="u",
    version=10,
    node="n1",
    phase="Running",
    labels=LABELS,
    annotations=ANNOTATIONS,
)
KEY = POD.key


def without(kind, mark, version=20):
    marks = {key: text for key, text in getattr(POD, kind).items() if key != mark}
    return replace(POD, version=version, **{kind: marks})


class Seen:
    """What is kept of the pods of the namespace of jobs, after the pod has been seen once."""

    def __init__(self):
        self.index, self.changes = PodIndex(), []
        self.copy = Copy(self.note, MarkKeeper(lambda pod: is_of_installation(pod, "gq")))
        self.copy.put(POD)

    def note(self, before, after):
        self.changes.append((before, after))
        self.index.apply_change(before, after)


@pytest.mark.parametrize(
    ("kind", "mark"), [*(("labels", mark) for mark in LABELS), *(("annotations", mark) for mark in ANNOTATIONS)]
)
@pytest.mark.parametrize("how", ["event", "list"])
def test_a_running_pod_keeps_what_was_taken_from_it(caplog, kind, mark, how):
    seen = Seen()
    for version in (20, 30):
        view = without(kind, mark, version)
        if how == "event":
            seen.copy.put(view)
        else:
            seen.copy.replace({KEY: view}, version)
    (pod,) = seen.index.of_run(("job-1", 2))
    assert (pod.task, pod.slots, pod.devices, pod.version) == (1, ("n1/0",), ("GPU-1",), 30)
    assert pod.lost_marks == (mark,)
    assert seen.index.take_deleted(("job-1", 2)) == []
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert mark in record.getMessage()
    assert "gq-job-1" in record.getMessage()


def test_a_mark_that_is_changed_counts_as_it_was_and_may_be_put_back():
    seen = Seen()
    seen.copy.put(replace(POD, version=20, annotations={**ANNOTATIONS, names.SLOTS: "n1/1"}))
    assert (seen.copy.get(*KEY).slots, seen.copy.get(*KEY).lost_marks) == (("n1/0",), (names.SLOTS,))
    seen.copy.put(replace(POD, version=30))
    assert seen.copy.get(*KEY).lost_marks == ()


def test_it_ends_and_goes_as_any_other():
    seen = Seen()
    seen.copy.put(without("labels", names.INSTALLATION))
    seen.copy.put(replace(without("labels", names.INSTALLATION, 30), phase="Succeeded"))
    assert seen.copy.get(*KEY).finished
    seen.copy.remove(KEY, 40)
    assert [pod.uid for pod in seen.index.take_deleted(("job-1", 2))] == ["u"]


@pytest.mark.parametrize("how", ["event", "list"])
def test_another_pod_of_its_name_is_not_taken_for_it(how):
    seen = Seen()
    other = replace(POD, uid="other", version=20, labels={}, annotations={})
    if how == "event":
        seen.copy.put(other)
    else:
        seen.copy.replace({KEY: other}, 20)
    assert seen.copy.get(*KEY) is None
    assert [pod.uid for pod in seen.index.take_deleted(("job-1", 2))] == ["u"]
    assert seen.changes[-1] == (POD, None)


def test_after_a_restart_of_the_service_the_slots_tell_that_it_is_ours():
    unlabelled = without("labels", names.INSTALLATION)
    assert is_of_installation(unlabelled, "gq")
    assert not is_of_installation(replace(unlabelled, annotations={}), "gq")
    assert is_of_installation(replace(unlabelled, annotations={names.SLOT: "n1/0"}), "gq")
    assert not is_of_installation(POD, "other")
    assert is_server(without("labels", names.WORKLOAD))
    assert is_server(without("annotations", names.SLOTS))
    assert not is_server(replace(POD, labels={}, annotations={}))


@pytest.mark.parametrize("workload", ["job-a", "nb-a"])
@pytest.mark.asyncio
async def test_the_owner_reads_what_was_taken_and_administrators_too(workload):
    paper = PaperBackend()
    await paper.runs.observe()
    kind, _, name = workload.partition("-")
    await paper.launch("nb" if kind == "nb" else "job", name, "n1/0", State.RUNNING, gpus="1")
    paper.pod(workload, "n1/0")
    assert (await paper.observed(workload)).sentence == ""
    assert paper.runs.capabilities.warnings() == []
    pods = (paper.runs._server_pods if kind == "nb" else paper.runs._job_pods).copy
    (pod,) = pods
    pods.put(replace(pod, labels={**pod.labels, names.TASK: "7"}, version=900))
    assert (await paper.observed(workload)).sentence == (
        f"Somebody has taken {names.TASK} from the pod {pod.name}, or changed it. Its work goes on, but the service "
        "may not know the pod after a restart: ask your administrator to put it back."
    )
    (told,) = paper.runs.capabilities.warnings()
    assert f"({pod.name} in {pod.namespace}: {names.TASK})" in told
    pods.put(replace(pod, version=910))
    assert (await paper.observed(workload)).sentence == ""
    assert paper.runs.capabilities.warnings() == []
    await paper.close()


def test_of_many_pods_a_few_are_named():
    pods = [replace(POD, name=f"p{number}", lost_marks=(names.TASK,)) for number in range(5)]
    (told,) = list_lost_marks([*pods, POD])
    assert "p2 in train: " in told
    assert "p3" not in told
    assert "; and 2 more)" in told
