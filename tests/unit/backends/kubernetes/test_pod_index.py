"""Pods by the run that they belong to."""

from dataclasses import replace

from jupyter_gq.backends.kubernetes.api.containers import Ended
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.pods.index import PodIndex


def a_pod(name="p", run="1", **fields):
    labels = {names.WORKLOAD: "job", names.ATTEMPT: run, names.TASK: "0"}
    return PodView(namespace="t", name=name, uid=f"uid-{name}", node="n1", labels=labels, **fields)


def test_how_a_pod_ended_is_known_although_it_was_gone_before_anybody_looked():
    index, running = PodIndex(), a_pod(phase="Running")
    ended = replace(running, phase="Succeeded", ended=Ended(exit_code=0, reason="", message="its last word"))
    index.apply_change(None, running)
    index.apply_change(running, ended)
    index.apply_change(ended, None)
    assert index.of_run(("job", 1)) == ()
    assert index.take_deleted(("job", 1)) == [ended]
    assert index.take_deleted(("job", 1)) == [], "it was taken"


def test_a_pod_of_another_run_in_its_place_does_not_hide_the_first():
    index, first = PodIndex(), a_pod()
    second = replace(a_pod(run="2"), uid="another")
    index.apply_change(None, first)
    index.apply_change(first, second)
    assert index.take_deleted(("job", 1)) == [first]
    assert index.of_run(("job", 2)) == (second,)


def test_what_is_forgotten_is_not_kept():
    index = PodIndex()
    index.apply_change(None, a_pod())
    index.apply_change(a_pod(), None)
    index.forget(("job", 1))
    assert index.take_deleted(("job", 1)) == []


def test_a_pod_that_names_no_run_is_of_the_present_one_whenever_either_is_seen():
    index, pod = PodIndex(), a_pod(run="")
    index.apply_change(None, pod)
    assert list(index.runs()) == [("job", 0)]
    for run in (1, 2):
        before = index.revision(("job", run))
        index.adopt(("job", run))
        assert (list(index.runs()), index.of_run(("job", run))) == ([("job", run)], (pod,))
        assert index.revision(("job", run)) > before, "it has to be looked at"
    index.apply_change(pod, ended := replace(pod, phase="Failed"))
    index.forget(("job", 1))
    assert index.of_run(("job", 2)) == (ended,)
    index.forget(("job", 2))
    assert (index.of_run(("job", 0)), index.of_run(("job", 2))) == ((ended,), ())
    index.apply_change(ended, None)
    assert list(index.runs()) == []


def test_a_pod_that_names_its_run_is_of_no_other():
    index, old = PodIndex(), a_pod()
    index.apply_change(None, old)
    for run in (1, 2):
        index.adopt(("job", run))
    assert (index.of_run(("job", 1)), index.of_run(("job", 2))) == ((old,), ())
