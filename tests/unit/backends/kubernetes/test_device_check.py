"""The check of the ways to make a device visible says what a pod has shown, whatever becomes of the pod."""

import logging

import pytest

from jupyter_gq.backends.kubernetes.api.errors import ClusterError
from jupyter_gq.backends.kubernetes.shares.device_check import DeviceCheck
from jupyter_gq.domain.pod_pool import PodPool

from .paper import OPTIONS

pytestmark = pytest.mark.asyncio


class DeletesNothing:
    """A cluster that refuses the deletion of each pod, and perhaps its creation."""

    def __init__(self, refusal=None):
        self.refusal = refusal

    async def create(self, ref, body):
        if self.refusal:
            raise ClusterError(self.refusal)

    async def get(self, ref, namespace, name):
        return None

    async def delete(self, ref, namespace, name, grace):
        raise ClusterError("deletions are forbidden")


@pytest.mark.parametrize(
    ("refusal", "problem"),
    [("creations are forbidden", "creations are forbidden"), (None, "Somebody deleted the pod of the trial.")],
)
async def test_a_pod_that_cannot_be_deleted_hides_no_finding(caplog, refusal, problem):
    check = DeviceCheck(DeletesNothing(refusal), OPTIONS)
    with caplog.at_level(logging.WARNING):
        report = await check.run("n1", PodPool(name="train"))
    assert report.whole.problem == problem
    assert "could not be deleted, delete it by hand: deletions are forbidden" in caplog.text
