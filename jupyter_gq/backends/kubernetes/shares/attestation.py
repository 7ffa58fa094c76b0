"""Whether a pod was seen to have its own devices and no others, and what that means for who waits for it.

Rules
-----
1. Where the device plugin chose the devices, the kubelet has seen to it already: work may begin unseen where no agent
   looks. Where we named them, nobody but us has: it must not begin before an agent has looked.
2. Who was given no device waits for nobody; when it is seen to have one all the same, it is stopped as others are.
3. What was looked at and cannot be told is no reason to wait: the node cannot tell it later either.
"""

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.nodes.agents import Agents
from jupyter_gq.backends.protocol import DevicesSeen, Sight

MISMATCH = (
    "DEVICE_MISMATCH: it did not see just the devices that it was given, so it was stopped. Tell your administrator."
)


def seen_by(agents: Agents, pod: PodView | None) -> DevicesSeen:
    """What the agent of its node tells of this pod; None: it was not seen in the cluster yet."""
    if pod is None:
        return DevicesSeen(sight=Sight.UNSEEN, required=True, sentence="Its pod has not been seen yet.")
    sight = agents.sight(pod.node, pod.uid)
    if not pod.slots and sight is not Sight.WRONG:
        return DevicesSeen(sight=Sight.RIGHT, required=False, sentence="It was given no device.")
    return DevicesSeen(sight=sight, required=bool(pod.devices), sentence=_sentence(agents, pod, sight))


def _sentence(agents: Agents, pod: PodView, sight: Sight) -> str:
    node = pod.node
    match sight:
        case Sight.RIGHT:
            return "Its container sees its own devices and no others."
        case Sight.WRONG:
            return MISMATCH
        case Sight.UNCLEAR:
            return agents.blindness(node, pod.uid)
        case Sight.UNSEEN:
            return f"The agent of the node {node} has not looked at its container yet."
    return agents.unfit(node) or f"The agent of the node {node} does not report."
