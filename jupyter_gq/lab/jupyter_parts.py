"""The parts of Jupyter's own objects that the extension uses, as types.

A method whose result is awaitable or not, as the Jupyter Server is configured, returns `MaybeAsync`.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar, Union

from jupyter_client.session import Session
from zmq.eventloop.zmqstream import ZMQStream

from jupyter_gq.domain.json_types import JsonMapping, JsonObject

T = TypeVar("T")
MaybeAsync = Union[T, Awaitable[T]]  # noqa: UP007 - the other form cannot hold a type variable


class KernelSpec(Protocol):
    """A kernelspec (`jupyter_client.kernelspec.KernelSpec`)."""

    argv: Sequence[str]
    env: Mapping[str, str]
    display_name: str
    language: str
    resource_dir: str


class RunningKernel(Protocol):
    """The manager of one kernel."""

    kernel_name: str
    kernel_spec: KernelSpec
    session: Session

    def connect_iopub(self) -> ZMQStream:
        """Return a new subscription to the messages that the kernel publishes."""

    def connect_shell(self) -> ZMQStream:
        """Return a new connection to the kernel's shell channel, for requests."""


class Kernels(Protocol):
    """The manager of the server's kernels."""

    default_kernel_name: str

    def list_kernel_ids(self) -> list[str]:
        """Return the ids of the kernels that run."""

    def get_kernel(self, kernel_id: str) -> RunningKernel:
        """Return the manager of a kernel that runs.

        Check `in` first: the error for any other kernel depends on the server's kernel manager.
        """

    def interrupt_kernel(self, kernel_id: str) -> MaybeAsync[None]:
        """Interrupt what this kernel runs."""

    def add_restart_callback(self, kernel_id: str, callback: Callable[[], None], event: str) -> None:
        """Call `callback` when this kernel has ended by itself: "restart" if it is started again, "dead" if not."""

    def remove_restart_callback(self, kernel_id: str, callback: Callable[[], None], event: str) -> None:
        """Stop calling `callback`."""

    def __contains__(self, kernel_id: object) -> bool:
        """Return True if this kernel runs."""

    def cwd_for_path(self, path: str) -> str:
        """Return the absolute path of the folder in which a kernel for this path of the contents manager runs."""


class KernelSpecs(Protocol):
    """The manager of the kernelspecs."""

    def get_kernel_spec(self, name: str) -> MaybeAsync[KernelSpec]:
        """Return a kernelspec by its name; raise `NoSuchKernel` if there is none."""

    def get_all_specs(self) -> MaybeAsync[Mapping[str, JsonMapping]]:
        """Return all kernelspecs by their names, each with its `spec` as in its file."""


class Contents(Protocol):
    """The contents manager: the user's files, wherever they are."""

    def dir_exists(self, path: str) -> MaybeAsync[bool]:
        """Return True if there is a folder at this path."""

    def file_exists(self, path: str) -> MaybeAsync[bool]:
        """Return True if there is a file at this path."""

    def get(self, path: str, content: bool, type: str) -> MaybeAsync[JsonMapping]:
        """Return the model of the file at a path; raise `HTTPError` if it cannot be read as this type."""

    def save(self, model: JsonObject, path: str) -> MaybeAsync[JsonMapping]:
        """Write a model to a path; return the model of the file."""

    def get_kernel_path(self, path: str) -> MaybeAsync[str]:
        """Return the folder in which a kernel for this notebook runs."""


class Sessions(Protocol):
    """The manager of the sessions: which notebook has which kernel."""

    async def list_sessions(self) -> list[JsonMapping]:
        """Return the models of all sessions, each with its `path` and its `kernel`."""


class EventBus(Protocol):
    """The server's event logger (`jupyter_events.EventLogger`)."""

    def register_event_schema(self, schema: Path) -> None:
        """Register the events of the schema in this file, so that they can be emitted."""

    def emit(self, *, schema_id: str, data: JsonMapping) -> object:
        """Emit an event to all listeners."""

    def add_listener(self, *, schema_id: str, listener: Callable[[object, str, JsonMapping], Awaitable[None]]) -> None:
        """Call `listener` for each event of a schema."""

    def remove_listener(self, *, listener: Callable[[object, str, JsonMapping], Awaitable[None]]) -> None:
        """Stop calling `listener`."""


class WebApplication(Protocol):
    """The server's tornado application."""

    settings: MutableMapping[str, object]


class ServerApp(Protocol):
    """The server itself (`jupyter_server.serverapp.ServerApp`)."""

    web_app: WebApplication
    event_logger: EventBus
    kernel_manager: Kernels
    kernel_spec_manager: KernelSpecs
    contents_manager: Contents
    session_manager: Sessions
