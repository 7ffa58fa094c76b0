"""The messages of the kubelet's PodResources API, version 1, as far as the agent reads them.

The message classes are built from a table when this module is imported. So no generated code is needed, which would
fit only some versions of protobuf. Protobuf skips fields that the table does not name: newer kubelets send more.
"""

from collections.abc import Sequence
from typing import Protocol, cast

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

#: Names of the two methods that the agent calls.
LIST = "/v1.PodResourcesLister/List"
ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"

#: Each message: its fields by name, with their number and type. A message name is a type too; [] = any number of them.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "ListPodResourcesRequest": {},
    "ListPodResourcesResponse": {"pod_resources": (1, "PodResources[]")},
    "PodResources": {"name": (1, "string"), "namespace": (2, "string"), "containers": (3, "ContainerResources[]")},
    "ContainerResources": {"name": (1, "string"), "devices": (2, "ContainerDevices[]")},
    "ContainerDevices": {"resource_name": (1, "string"), "device_ids": (2, "string[]")},
    "AllocatableResourcesRequest": {},
    "AllocatableResourcesResponse": {"devices": (1, "ContainerDevices[]")},
}


def _build_pool() -> DescriptorPool:
    """Return a protobuf descriptor pool with the messages of the table."""
    file = FileDescriptorProto(name="podresources/v1/api.proto", package="v1", syntax="proto3")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            field = described.field.add(name=name, number=number)
            many, kind = kind.endswith("[]"), kind.removesuffix("[]")
            field.label = FieldDescriptorProto.LABEL_REPEATED if many else FieldDescriptorProto.LABEL_OPTIONAL
            if kind in _MESSAGES:
                field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".v1.{kind}"
            else:
                field.type = FieldDescriptorProto.TYPE_STRING
    # A separate pool: another package in this process may define the same names in the default pool.
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _build_pool()


def message_class(name: str) -> type[Message]:
    """Return the protobuf class of the message with this name."""
    return cast(type[Message], GetMessageClass(_POOL.FindMessageTypeByName(f"v1.{name}")))


class ContainerDevices(Protocol):
    """Devices of one resource that a container has."""

    resource_name: str
    device_ids: Sequence[str]


class ContainerResources(Protocol):
    """A container with its devices."""

    name: str
    devices: Sequence[ContainerDevices]


class PodResources(Protocol):
    """A pod with its containers."""

    name: str
    namespace: str
    containers: Sequence[ContainerResources]


class ListedPods(Protocol):
    """The answer to `LIST`: all pods with their devices."""

    pod_resources: Sequence[PodResources]


class AllocatableDevices(Protocol):
    """The answer to `ALLOCATABLE`: the devices that the kubelet can give to pods."""

    devices: Sequence[ContainerDevices]


ListRequest = message_class("ListPodResourcesRequest")
ListResponse = cast(type[ListedPods], message_class("ListPodResourcesResponse"))
AllocatableRequest = message_class("AllocatableResourcesRequest")
AllocatableResponse = cast(type[AllocatableDevices], message_class("AllocatableResourcesResponse"))
