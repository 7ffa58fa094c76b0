"""The parts of the Hub's own objects that this room uses, as types: JupyterHub and KubeSpawner have none."""

from collections.abc import Mapping
from logging import Logger
from typing import Protocol

from jupyter_gq.domain.json_types import JsonMapping, JsonObject, JsonValue

#: URL of a started server, or its host and port.
Address = str | tuple[str, int]
#: Fields of a form: each has the list of its values.
Form = Mapping[str, list[JsonValue]]


class Database(Protocol):
    """The Hub's database session."""

    def delete(self, record: object) -> None:
        """Delete a record."""

    def commit(self) -> None:
        """Commit the transaction of the session."""


class HubUser(Protocol):
    """The user of a spawner."""

    name: str
    db: Database

    def new_api_token(self, *, note: str, expires_in: int, scopes: list[str]) -> str:
        """Make and store a token of the user with these scopes, which expires after `expires_in` seconds; return it.

        Raises `ValueError` if the user does not hold the scopes.
        """


class SpawnHandler(Protocol):
    """The handler of the request that starts a server."""

    settings: JsonObject


class AnySpawner(Protocol):
    """A spawner as the Hub makes it, with `GPUShareMixin`."""

    log: Logger
    name: str
    user: HubUser
    handler: SpawnHandler | None
    service_url: str
    gpu_ended: str
    #: Whether the last start failed.
    _failed: bool

    @property
    def user_options(self) -> JsonValue:
        """The options that the user requested; not trusted."""


class ProfileSpawner(AnySpawner, Protocol):
    """A spawner with profiles, as KubeSpawner has them."""

    async def profiles(self) -> list[JsonMapping]:
        """Return the administrator's list of profiles."""
        ...

    def _render_options_form(self, profile_list: list[JsonMapping]) -> str:
        """Return the HTML of the form in which the user chooses one of these profiles."""
        ...
