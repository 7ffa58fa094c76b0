"""The devices that the kubelet gave to each pod, read from its PodResources socket. The only module that imports grpc.

Rules
-----
- Unfiltered: kubelets before 1.34 also list pods that have ended. Only the service knows which pods run, so the list is
  passed on unchanged.
- Nothing is kept between two calls, not even a connection: a kubelet that restarts makes its socket anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import grpc
from google.protobuf.message import Message

from jupyter_gq.client.agents import AgentAllocation
from jupyter_gq.domain.errors import MachineError

from . import podresources as messages

Answer = TypeVar("Answer")
#: Timeout of one answer of the kubelet, in seconds.
_TIMEOUT = 5.0
_MAX_BYTES = 16 * 1024 * 1024
_OPTIONS = (
    ("grpc.max_receive_message_length", _MAX_BYTES),
    ("grpc.enable_http_proxy", 0),
    # Without it, channels of one process share connections, and a new channel waits for the back-off of a dead one.
    ("grpc.use_local_subchannel_pool", 1),
)
#: Part of the id of a copy of a device, before the number of the copy. Device plugins that share devices make copies.
COPY_SEPARATOR = "::"


class KubeletError(MachineError):
    """A kubelet that does not answer; the text is a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KubeletView:
    """The devices of a node as its kubelet listed them at one moment."""

    allocations: tuple[AgentAllocation, ...]
    #: Ids of the devices that the kubelet can give to pods; None if it does not tell.
    allocatable: tuple[str, ...] | None

    def copied_ids(self) -> tuple[str, ...]:
        """Return the ids that stand for one of several copies of a device, sorted; empty if no device has copies."""
        given = [device for allocation in self.allocations for device in allocation.device_ids]
        return tuple(sorted({device for device in [*given, *(self.allocatable or ())] if COPY_SEPARATOR in device}))


class KubeletSocket:
    """A client of the kubelet's PodResources API at a Unix socket."""

    def __init__(self, socket: Path, *, timeout: float = _TIMEOUT) -> None:
        """Create a client of this socket, with a timeout in seconds for each answer."""
        self._socket, self._timeout = socket, timeout

    def read(self) -> KubeletView:
        """Return the devices that the kubelet lists now; raise `KubeletError` without a socket or an answer in time."""
        if not self._socket.exists():
            raise KubeletError(
                f"There is no socket {self._socket}: mount the kubelet's folder pod-resources into the agent's pod."
            )
        with grpc.insecure_channel(f"unix:{self._socket}", options=_OPTIONS) as channel:
            try:
                listed = self._call(channel, messages.LIST, messages.ListRequest(), messages.ListResponse)
            except grpc.RpcError as error:
                raise KubeletError(
                    f"The kubelet does not answer at {self._socket}: {_describe_error(error)}."
                ) from error
            return KubeletView(
                allocations=tuple(_list_allocations(listed)), allocatable=self._list_allocatable(channel)
            )

    def _list_allocatable(self, channel: grpc.Channel) -> tuple[str, ...] | None:
        """Return the ids of the devices that the kubelet can give to pods; None if it does not tell."""
        try:
            answer = self._call(
                channel, messages.ALLOCATABLE, messages.AllocatableRequest(), messages.AllocatableResponse
            )
        except grpc.RpcError:  # this call is switched off in older kubelets
            return None
        return tuple(device for devices in answer.devices for device in devices.device_ids)

    def _call(self, channel: grpc.Channel, method: str, request: Message, answer: type[Answer]) -> Answer:
        """Call a method of the API; return the parsed answer, a message of the type `answer`.

        Raises `grpc.RpcError` if the call fails or exceeds the timeout.
        """
        parse = cast(type[Message], answer).FromString
        call = channel.unary_unary(
            method, request_serializer=type(request).SerializeToString, response_deserializer=parse
        )
        return cast(Answer, call(request, timeout=self._timeout))


def _list_allocations(listed: messages.ListedPods) -> Iterator[AgentAllocation]:
    """Yield an allocation for each container and resource: a kubelet lists each device of a container separately."""
    for pod in listed.pod_resources:
        for container in pod.containers:
            by_resource: dict[str, list[str]] = {}
            for devices in container.devices:
                by_resource.setdefault(devices.resource_name, []).extend(devices.device_ids)
            for resource, ids in by_resource.items():
                yield AgentAllocation(
                    namespace=pod.namespace,
                    pod=pod.name,
                    container=container.name,
                    resource=resource,
                    device_ids=sorted(ids),
                )


def _describe_error(error: grpc.RpcError) -> str:
    if not isinstance(error, grpc.Call):
        return str(error)
    code = error.code()
    return f"{'' if code is None else code.name}: {error.details()}"
