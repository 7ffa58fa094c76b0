"""The parts of a hub configuration that are the same for every spawner: scopes, roles, pages.

Values that an administrator has set before are kept and added to.
"""

import os
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

import jupyterhub
from traitlets import TraitError
from traitlets.config.loader import Config, LazyConfigValue

from jupyter_gq.client.connection.early_answer import DELAY_VARIABLE
from jupyter_gq.domain.json_types import JsonMapping, JsonObject, JsonValue

T = TypeVar("T")

SERVICE = "jupyter-gq"
TEMPLATES = str(Path(__file__).parent / "templates")
#: Seconds for the service to answer after its start. A service that ends meanwhile is noticed at once.
_START_TIMEOUT = 300
#: Seconds after which a service that still starts answers Hub 5. An error in its settings ends most services before.
_EARLY_ANSWER = 4
#: The namespace of a pod, for the programs in it.
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
CUSTOM_SCOPES = {
    "custom:gq:read": {"description": "See the GPU queues and your own jobs"},
    "custom:gq:change": {"description": "Hold, change and cancel jobs", "subscopes": ["custom:gq:read"]},
    "custom:gq:delete": {"description": "Delete jobs that have ended", "subscopes": ["custom:gq:read"]},
    "custom:gq:submit": {
        "description": "Send jobs to training",
        "subscopes": ["custom:gq:change", "custom:gq:delete"],
    },
    "custom:gq:admin": {"description": "See and change every job", "subscopes": ["custom:gq:submit"]},
}
#: Scopes of each user, and of each of the user's servers.
USER_SCOPES = [f"access:services!service={SERVICE}", "custom:gq:submit"]
#: Scopes of the service: find users and servers, stop an idle server.
SERVICE_SCOPES = ["list:users", "read:users:name", "read:users:groups", "read:servers", "delete:servers"]


def make_page_login() -> JsonObject:
    """Return the settings of the login to the service's page: the scopes that it may ask for, and no confirmation."""
    return {"oauth_client_allowed_scopes": ["custom:gq:submit", "custom:gq:admin"], "oauth_no_confirm": True}


def make_start_timeout() -> JsonObject:
    """Return the setting of the time that Hub 6 gives the service to answer after its start; Hub 5 has none.

    A Hub whose service does not answer in time ends itself and the service, so the next start is as slow.
    """
    return {"timeout": _START_TIMEOUT} if jupyterhub.version_info >= (6,) else {}


def make_early_answer() -> dict[str, str]:
    """Return the variable with which the service answers while it starts, for Hub 5, which waits ten seconds only."""
    return {} if jupyterhub.version_info >= (6,) else {DELAY_VARIABLE: str(_EARLY_ANSWER)}


def get_base_url(c: Config) -> str:
    """Return the base URL of the Hub with a slash at each end."""
    return f"/{str(get_value(c.JupyterHub, 'base_url', '/')).strip('/')}/".replace("//", "/")


def set_template_paths(c: Config) -> None:
    """Add our folder of templates after those of the administrator, unless it is there already."""
    paths = [*check_texts("c.JupyterHub.template_paths", get_value(c.JupyterHub, "template_paths", []))]
    if TEMPLATES not in paths:
        c.JupyterHub.template_paths = [*paths, TEMPLATES]


def set_scopes(c: Config, admins: Collection[str]) -> None:
    """Add the scopes and roles of users, servers, the service and `admins`, as this version of the Hub needs them.

    `admins` also become administrators of the Hub. Raises `TraitError` if a list of names is one text instead.
    """
    check_texts("configure(c, admins=...)", admins)
    c.JupyterHub.custom_scopes = {**get_dict(c.JupyterHub, "custom_scopes"), **CUSTOM_SCOPES}
    roles = get_list(c.JupyterHub, "load_roles")
    if not any(role.get("name") == SERVICE for role in roles):
        roles.append({"name": SERVICE, "services": [SERVICE], "scopes": SERVICE_SCOPES})
    if admins:
        users = sorted(admins)
        roles.append({"name": f"{SERVICE}-admin", "users": users, "scopes": ["custom:gq:admin"]})
        c.Authenticator.admin_users = {*get_texts(c, "Authenticator", "admin_users"), *users}
    user_role = next((role for role in roles if role.get("name") == "user"), None)
    if user_role is not None:  # the administrator's own role takes precedence, in Hub 6 too
        roles[roles.index(user_role)] = {
            **user_role,
            "scopes": merge_unique(
                check_texts("scopes of the role user in c.JupyterHub.load_roles", user_role.get("scopes", ["self"])),
                USER_SCOPES,
            ),
        }
    elif jupyterhub.version_info >= (6,):
        c.JupyterHub.extra_user_scopes = {*get_texts(c, "JupyterHub", "extra_user_scopes"), *USER_SCOPES}
    else:
        roles.append({"name": "user", "scopes": ["self", *USER_SCOPES]})
    c.JupyterHub.load_roles = roles
    server = get_value(c.Spawner, "server_token_scopes", ["users:activity!user", "access:servers!server"])
    if not callable(server):
        c.Spawner.server_token_scopes = merge_unique(check_texts("c.Spawner.server_token_scopes", server), USER_SCOPES)


def find_seen_namespace(config: Config) -> str:
    """Return the namespace whose servers the service sees: the configured one or else this pod's; "" = not known."""
    told: str = get_value(config.KubernetesBackend, "hub_namespace", "") or os.environ.get("POD_NAMESPACE", "")
    try:
        return told or _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def get_value(section: Config, name: str, otherwise: T) -> T:
    """Return the value of the setting `name` in a section, or `otherwise` if the file has not set it.

    Unlike reading `c.X.y`, this makes no placeholder in the section.
    """
    if name not in section:
        return otherwise
    value = section[name]
    found: T = value.get_value(otherwise) if isinstance(value, LazyConfigValue) else value
    return found


def get_texts(c: Config, section: str, name: str) -> Collection[str]:
    """Return the texts that the file has set, none if it has not; raise `TraitError` if it has set one text."""
    texts: Collection[str] = get_value(c[section], name, ())
    return check_texts(f"c.{section}.{name}", texts)


def check_texts(setting: str, value: Collection[str]) -> Collection[str]:
    """Return the value of a setting that is a list of texts or paths; raise `TraitError` for anything else.

    A text is refused because its letters would be taken as the items.
    """
    is_text = isinstance(value, str | bytes)
    if isinstance(value, Collection) and not is_text and all(isinstance(item, str | Path) for item in value):
        return value
    example = [value] if isinstance(value, str) else ["ann", "bob"]
    raise TraitError(f"{setting}: {value!r} is given, and a list of texts is expected, such as {example!r}.")


def get_list(section: Config, name: str) -> list[JsonValue]:
    """Return a copy of the list that the file has set, or an empty list."""
    found: list[JsonValue] = get_value(section, name, [])
    return list(found)


def get_dict(section: Config, name: str) -> JsonObject:
    """Return a copy of the dict that the file has set, or an empty dict."""
    found: JsonMapping = get_value(section, name, {})
    return dict(found)


def merge_unique(first: Collection[str], second: Collection[str]) -> list[str]:
    """Return the items of both lists in order, without duplicates."""
    return list(dict.fromkeys([*first, *second]))
