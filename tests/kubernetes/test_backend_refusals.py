"""What a cluster refuses, and what the backend makes of it, against a real API server."""

import asyncio
import contextlib
import itertools

import pytest
from kubernetes.client import AdmissionregistrationV1Api, ApiException, BatchV1Api, RbacAuthorizationV1Api

from jupyter_gq.backends.protocol import Outcome, Phase
from tests.kubernetes.waiting import eventually, until

pytestmark = pytest.mark.asyncio


async def test_a_refusal_keeps_its_text_and_leaves_nothing(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=4)
    core, train = world.plane.core, world.namespaces.train
    core.create_namespaced_resource_quota(train, {"metadata": {"name": "two"}, "spec": {"hard": {"pods": "1"}}})
    await eventually(lambda: core.read_namespaced_resource_quota("two", train).status.hard, "the quota counts")
    gang = world.job("too-many", (node, 0), (node, 1), (node, 2))
    await world.launch(gang)
    end = await world.end(gang)
    assert end.outcome is Outcome.REFUSED
    assert "exceeded quota: two" in end.sentence
    assert not await asyncio.to_thread(world.pods), "all or none"
    assert all(world.offered(node).values()), "the node can do nothing for it"
    await world.backend.forget(gang.id, 1)
    core.delete_namespaced_resource_quota("two", train)
    await eventually(lambda: not core.list_namespaced_resource_quota(train).items, "the quota is gone")
    insecure = world.new_backend(pod_overrides={"spec": {"hostNetwork": True}})
    world.backend = insecure
    job = world.job("insecure", (node, 0))
    await world.launch(job)
    assert 'violates PodSecurity "restricted' in (await world.end(job)).sentence


@contextlib.contextmanager
def read_only(world):
    """The service's role in the training namespace is not what it should be."""
    rbac, train = RbacAuthorizationV1Api(world.plane.client()), world.namespaces.train
    (role,) = rbac.list_namespaced_role(train).items
    only = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    rbac.patch_namespaced_role(role.metadata.name, train, {"rules": only})
    try:
        yield
    finally:
        rules = [{"apiGroups": r.api_groups, "resources": r.resources, "verbs": r.verbs} for r in role.rules]
        rbac.patch_namespaced_role(role.metadata.name, train, {"rules": rules})


async def test_a_missing_right_is_named(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=1)
    with read_only(world):
        sentence = await eventually(_refusals(world, "unentitled", node), "the role is in force")
    assert "lacks the right to create pods in API group" in sentence
    assert world.namespaces.service_user in sentence


def _refusals(world, name, node):
    """One run after the other, until it is refused."""
    runs = itertools.count(1)
    return lambda: _refusal(world, world.job(name, (node, 0), run=next(runs)))


async def _refusal(world, job):
    """Why it was refused; None when it was not."""
    await world.launch(job)
    seen = await world.until(job, lambda seen: seen.phase is not Phase.STARTING, "an answer")
    await world.backend.stop(job.id, job.run, 0)
    await world.end(job)
    await world.backend.forget(job.id, job.run)
    return seen.sentence if seen.outcome is Outcome.REFUSED else None


@contextlib.contextmanager
def no_bare_pods(world):
    """A site's policy: who makes a pod says for what."""
    api, name = AdmissionregistrationV1Api(world.plane.client()), f"no-bare-pods-{world.namespaces.release}"
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    only = {"matchLabels": {"kubernetes.io/metadata.name": world.namespaces.train}}
    rule = {"expression": "has(object.metadata.ownerReferences)", "message": "bare pods are forbidden here"}
    spec = {"matchConstraints": {"resourceRules": [pods]}, "validations": [rule], "failurePolicy": "Fail"}
    bound = {"policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": only}}
    api.create_validating_admission_policy({"metadata": {"name": name}, "spec": spec})
    api.create_validating_admission_policy_binding({"metadata": {"name": name}, "spec": bound})
    try:
        yield
    finally:
        api.delete_validating_admission_policy_binding(name)
        api.delete_validating_admission_policy(name)
        until(lambda: _pods_may_be_made(world), "the policy is no longer in force")


def _pods_may_be_made(world):
    # One that Pod Security lets in, or its refusal would hide the other one.
    secure = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}
    secure["seccompProfile"] = {"type": "RuntimeDefault"}
    container = {"name": "c", "image": "i", "securityContext": secure}
    body = {"metadata": {"name": "probe"}, "spec": {"serviceAccountName": "gq-runner", "containers": [container]}}
    try:
        world.plane.core.create_namespaced_pod(world.namespaces.train, body, dry_run="All")
    except ApiException as error:
        if "bare pods are forbidden here" in error.body:
            return False
        raise
    return True


async def test_where_bare_pods_are_forbidden_jobs_make_them(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    with no_bare_pods(world):
        sentence = await eventually(_refusals(world, "bare", node), "the policy is in force")
        assert "bare pods are forbidden here" in sentence
        world.backend = world.new_backend(as_jobs=True)
        job = world.job("wrapped", (node, 0), run=1)
        await world.launch(job)
        await world.running(job)
        world.backend = world.new_backend(as_jobs=True)
        await world.backend.observe()
        await world.launch(job)
        await world.running(job)
        await world.backend.stop(job.id, 1, 1)
        assert (await world.end(job)).outcome is Outcome.KILLED
        await world.backend.forget(job.id, 1)
        batch = BatchV1Api(world.plane.client())

        async def gone():
            await world.backend.observe()
            jobs = await asyncio.to_thread(batch.list_namespaced_job, world.namespaces.train)
            return not jobs.items and not await asyncio.to_thread(world.pods)

        await eventually(gone, "the Job and its pod are gone")


async def test_a_job_whose_pod_is_refused_is_refused_and_goes(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=1)
    core, train = world.plane.core, world.namespaces.train
    core.create_namespaced_resource_quota(train, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    await eventually(lambda: core.read_namespaced_resource_quota("none", train).status.hard, "the quota counts")
    batch = BatchV1Api(world.plane.client())
    try:
        world.backend = world.new_backend(as_jobs=True)
        job = world.job("barren", (node, 0))
        await world.launch(job)
        await world.observed(job)
        await eventually(lambda: batch.list_namespaced_job(train).items, "its Job")
        assert (await world.observed(job)).phase is Phase.STARTING
        world.clock.ahead += 31
        end = await world.end(job)
        assert end.outcome is Outcome.REFUSED
        assert end.sentence.startswith("The Job gq-job-barren-1-0 has made no pod in 30 s: pods ")
        assert "exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0" in end.sentence
        await world.backend.forget(job.id, 1)

        async def gone():
            await world.backend.observe()
            return not batch.list_namespaced_job(train).items

        await eventually(gone, "the Job is gone")
    finally:
        core.delete_namespaced_resource_quota("none", train)
        await eventually(lambda: not core.list_namespaced_resource_quota(train).items, "the quota is gone")
