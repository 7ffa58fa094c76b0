"""What every hub configuration of ours sets, whatever the spawner: scopes, roles, pages.

What an administrator has set before is kept and added to.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import jupyterhub
from traitlets.config.loader import LazyConfigValue

from jupyter_gq.domain.json_types import JsonMapping, JsonObject

SERVICE = "jupyter-gq"
TEMPLATES = str(Path(__file__).parent / "templates")
CUSTOM_SCOPES = {
    "custom:gq:read": {"description": "See the GPU queues and your own jobs"},
    "custom:gq:submit": {"description": "Send jobs to training", "subscopes": ["custom:gq:read"]},
    "custom:gq:admin": {"description": "See and change every job", "subscopes": ["custom:gq:submit"]},
}
#: What each user may do, and each of his servers in his name.
USER_SCOPES = [f"access:services!service={SERVICE}", "custom:gq:submit"]
#: What the service may do: find users and servers, stop an idle server.
SERVICE_SCOPES = ["list:users", "read:users:name", "read:users:groups", "read:servers", "delete:servers"]


def page_login() -> JsonObject:
    """What a browser's login may carry to the service's page; each user gets of it what he holds."""
    return {"oauth_client_allowed_scopes": ["custom:gq:submit", "custom:gq:admin"], "oauth_no_confirm": True}


def base_url(c: Any) -> str:
    """The Hub's, with a slash at both ends."""
    return f"/{str(value(c.JupyterHub, 'base_url', '/')).strip('/')}/".replace("//", "/")


def set_pages(c: Any) -> None:
    """Ours, after those of the administrator."""
    paths = items(c.JupyterHub, "template_paths")
    if TEMPLATES not in paths:
        c.JupyterHub.template_paths = [*paths, TEMPLATES]


def set_scopes(c: Any, admins: Collection[str]) -> None:
    """What users, their servers, the service and `admins` may do, in the way of this version of the Hub."""
    c.JupyterHub.custom_scopes = {**mapping(c.JupyterHub, "custom_scopes"), **CUSTOM_SCOPES}
    roles = items(c.JupyterHub, "load_roles")
    if not any(role.get("name") == SERVICE for role in roles):
        roles.append({"name": SERVICE, "services": [SERVICE], "scopes": SERVICE_SCOPES})
    if admins:
        users = sorted(admins)
        roles.append({"name": f"{SERVICE}-admin", "users": users, "scopes": ["custom:gq:admin"]})
        c.Authenticator.admin_users = {*value(c.Authenticator, "admin_users", set()), *users}
    user_role = next((role for role in roles if role.get("name") == "user"), None)
    if user_role is not None:  # the administrator's own, which takes precedence in Hub 6 too
        roles[roles.index(user_role)] = {**user_role, "scopes": united(user_role.get("scopes", ["self"]), USER_SCOPES)}
    elif jupyterhub.version_info >= (6,):
        c.JupyterHub.extra_user_scopes = {*value(c.JupyterHub, "extra_user_scopes", set()), *USER_SCOPES}
    else:
        roles.append({"name": "user", "scopes": ["self", *USER_SCOPES]})
    c.JupyterHub.load_roles = roles
    server = value(c.Spawner, "server_token_scopes", ["users:activity!user", "access:servers!server"])
    if not callable(server):
        c.Spawner.server_token_scopes = united(server, USER_SCOPES)


def value(section: Any, name: str, otherwise: Any) -> Any:
    """A value that the file has set before, or `otherwise`: reading `c.X.y` would make a placeholder."""
    if name not in section:
        return otherwise
    value = section[name]
    return value.get_value(otherwise) if isinstance(value, LazyConfigValue) else value


def items(section: Any, name: str) -> list[Any]:
    """A list that the file has set before; an empty one otherwise."""
    return list(value(section, name, []))


def mapping(section: Any, name: str) -> JsonObject:
    """A dict that the file has set before; an empty one otherwise."""
    found: JsonMapping = value(section, name, {})
    return dict(found)


def united(first: Collection[str], second: Collection[str]) -> list[str]:
    """Both, in this order, each once."""
    return list(dict.fromkeys([*first, *second]))
