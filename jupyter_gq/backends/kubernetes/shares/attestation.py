"""Whether a pod was seen to have its own devices and no others, and what that means for who waits for it.

Rules
-----
1. Where the device plugin chose the devices, the kubelet has seen to it already: work may begin unseen where no agent
   looks. Where we named them, nobody but us has: it must not begin before an agent has looked.
2. Who was given no device waits for nobody; when it is seen to have one all the same, it is stopped as others are.
3. What was looked at and cannot be told is no reason to wait: the node cannot tell it later either.
"""

from jupyter_gq.backends.capabilities import Attestation, AttestationResult
from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.nodes.agents import Agents

MISMATCH = (
    "DEVICE_MISMATCH: it did not see just the devices that it was given, so it was stopped. Tell your administrator."
)


def attest(agents: Agents, pod: PodView | None) -> Attestation:
    """Return what the agent of its node found of the pod's devices; None: the cluster has not shown the pod yet."""
    if pod is None:
        return Attestation(result=AttestationResult.UNSEEN, required=True, sentence="Its pod has not been seen yet.")
    result = agents.attestation(pod.node, pod.uid)
    if not pod.slots and result is not AttestationResult.WRONG:
        return Attestation(result=AttestationResult.RIGHT, required=False, sentence="It was given no device.")
    return Attestation(result=result, required=bool(pod.devices), sentence=_sentence(agents, pod, result))


def _sentence(agents: Agents, pod: PodView, result: AttestationResult) -> str:
    node = pod.node
    match result:
        case AttestationResult.RIGHT:
            return "Its container sees its own devices and no others."
        case AttestationResult.WRONG:
            return MISMATCH
        case AttestationResult.UNCLEAR:
            return agents.blindness(node, pod.uid)
        case AttestationResult.UNSEEN:
            return f"The agent of the node {node} has not looked at its container yet."
    return agents.unfit(node) or f"The agent of the node {node} does not report."
