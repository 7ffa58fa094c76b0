"""The device visibility check of a pod as the work in it is told: whether it sees its own devices and no others.

Rules
-----
- The named-device rule: if the backend named the devices of a pod, nobody else keeps others away, so the work must not
  begin before an agent has checked the pod. If the device plugin chose the devices, the kubelet keeps others away, and
  the work may begin unchecked where no agent checks.
- The no-device rule: work without a device waits for no check. If a check finds a device all the same, the pod is
  stopped as any other.
- The unclear-check rule: a check whose result cannot be told is no reason to wait, for the node cannot tell it later
  either.
"""

from jupyter_gq.backends.capabilities import Attestation, AttestationResult
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.nodes.agents import Agents

MISMATCH = (
    "DEVICE_MISMATCH: the pod did not see just the devices that it was given, so it was stopped. "
    "Tell your administrator."
)


def attest(agents: Agents, pod: PodView | None) -> Attestation:
    """Return the device check of a pod, by the reports of its node; None as pod: the cluster has not shown it yet."""
    if pod is None:
        return Attestation(result=AttestationResult.UNCHECKED, required=True, sentence="The pod has not been seen yet.")
    result = agents.attestation(pod.node, pod.uid)
    if not pod.slots and result is not AttestationResult.WRONG:
        return Attestation(result=AttestationResult.RIGHT, required=False, sentence="The pod was given no device.")
    return Attestation(result=result, required=bool(pod.devices), sentence=_describe(agents, pod, result))


def _describe(agents: Agents, pod: PodView, result: AttestationResult) -> str:
    node = pod.node
    match result:
        case AttestationResult.RIGHT:
            return "The container sees its own devices and no others."
        case AttestationResult.WRONG:
            return MISMATCH
        case AttestationResult.UNCLEAR:
            return agents.explain_unclear_check(node, pod.uid)
        case AttestationResult.UNCHECKED:
            return f"The agent of the node {node} has not checked the container yet."
    return agents.unfit(node) or f"The agent of the node {node} does not report."
