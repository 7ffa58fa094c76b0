"""Asks the kubelet which devices it gave to which pod. The only module that imports grpc.

Rules
-----
1. What it lists is passed on as it stands: kubelets before 1.34 also list pods that have ended, and only who knows the
   pods can tell.
2. Nothing is remembered, not even a connection: a kubelet that restarts makes its socket anew.
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
#: What the kubelet may take to answer.
_TIMEOUT = 5.0
_MOST_BYTES = 16 * 1024 * 1024
_OPTIONS = (("grpc.max_receive_message_length", _MOST_BYTES), ("grpc.enable_http_proxy", 0))
#: A device id with it is one of several copies of a device, made by a device plugin that shares.
COPY = "::"


class KubeletError(MachineError):
    """A kubelet that cannot be asked; the text is a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KubeletView:
    """The kubelet's answer at one moment."""

    allocations: tuple[AgentAllocation, ...]
    #: Devices that it could give to pods; None when it does not say.
    allocatable: tuple[str, ...] | None

    def copies(self) -> tuple[str, ...]:
        """Ids that stand for one of several copies of a device, in order."""
        given = [device for allocation in self.allocations for device in allocation.device_ids]
        return tuple(sorted({device for device in [*given, *(self.allocatable or ())] if COPY in device}))


class KubeletSocket:
    """The PodResources API at this socket."""

    def __init__(self, socket: Path, *, timeout: float = _TIMEOUT) -> None:
        self._socket, self._timeout = socket, timeout

    def look(self) -> KubeletView:
        """Ask the kubelet now; raise `KubeletError` if it does not answer."""
        if not self._socket.exists():
            raise KubeletError(
                f"There is no socket {self._socket}: mount the kubelet's folder pod-resources into the agent's pod."
            )
        with grpc.insecure_channel(f"unix:{self._socket}", options=_OPTIONS) as channel:
            try:
                listed = self._call(channel, messages.LIST, messages.ListRequest(), messages.ListResponse)
            except grpc.RpcError as error:
                raise KubeletError(f"The kubelet does not answer at {self._socket}: {_words(error)}.") from error
            return KubeletView(allocations=tuple(_allocations(listed)), allocatable=self._allocatable(channel))

    def _allocatable(self, channel: grpc.Channel) -> tuple[str, ...] | None:
        try:
            answer = self._call(
                channel, messages.ALLOCATABLE, messages.AllocatableRequest(), messages.AllocatableResponse
            )
        except grpc.RpcError:  # older kubelets have it switched off
            return None
        return tuple(device for devices in answer.devices for device in devices.device_ids)

    def _call(self, channel: grpc.Channel, method: str, request: Message, answer: type[Answer]) -> Answer:
        parse = cast(type[Message], answer).FromString
        call = channel.unary_unary(
            method, request_serializer=type(request).SerializeToString, response_deserializer=parse
        )
        return cast(Answer, call(request, timeout=self._timeout))


def _allocations(listed: messages.Listed) -> Iterator[AgentAllocation]:
    """Yield an allocation for each container and resource; a kubelet lists each device apart, with its topology."""
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


def _words(error: grpc.RpcError) -> str:
    if not isinstance(error, grpc.Call):
        return str(error)
    code = error.code()
    return f"{'' if code is None else code.name}: {error.details()}"
