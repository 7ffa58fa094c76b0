"""Who may call a route: Hub scopes, or what the cluster says of a pod, and nothing that a caller could claim.

Rules
-----
1. A Hub token must carry the access scope of this service, and the custom scope of the route.
2. admin implies submit, submit implies read. The Hub expands this itself; it is repeated here so that a Hub whose
   scopes were declared without their subscopes does not lock its admins out.
3. A scope with a filter counts only when the filter names this caller (`custom:gq:read!user=ann` for ann).
4. A job token opens the routes of its own job's runner, and no other; a Hub token does not open those.
5. The token of a pod opens what its service account is for, on Kubernetes only; see `api.pods`.
"""

from dataclasses import dataclass
from enum import StrEnum

from jupyter_gq.controller.caller import Caller

READ_SCOPE = "custom:gq:read"
SUBMIT_SCOPE = "custom:gq:submit"
ADMIN_SCOPE = "custom:gq:admin"

#: What grants a scope: the scope itself and every wider one.
GRANTED_BY: dict[str, tuple[str, ...]] = {
    READ_SCOPE: (READ_SCOPE, SUBMIT_SCOPE, ADMIN_SCOPE),
    SUBMIT_SCOPE: (SUBMIT_SCOPE, ADMIN_SCOPE),
    ADMIN_SCOPE: (ADMIN_SCOPE,),
}


class Access(StrEnum):
    """What a route demands."""

    PUBLIC = "public"
    READ = "read"
    SUBMIT = "submit"
    MONITOR = "monitor"  # an admin, or any service of the Hub that may access this one
    ADMIN = "admin"
    JOB_TOKEN = "job_token"  # noqa: S105 - a kind of access, not a secret
    POD = "pod"  # the pod of a job's task
    AGENT = "agent"  # the agent of the node in the path

    @property
    def scope(self) -> str | None:
        """The custom scope that it needs; None when it needs none or another kind of proof."""
        return _SCOPES.get(self)


_SCOPES = {
    Access.READ: READ_SCOPE,
    Access.SUBMIT: SUBMIT_SCOPE,
    Access.MONITOR: ADMIN_SCOPE,
    Access.ADMIN: ADMIN_SCOPE,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Whom the Hub says a token belongs to."""

    name: str
    #: A service of the Hub, not a person.
    is_service: bool
    groups: frozenset[str]
    #: As the Hub expanded them.
    scopes: frozenset[str]

    def holds(self, scope: str) -> bool:
        """One of its scopes grants this one."""
        filtered = "service" if self.is_service else "user"
        return any(
            wider in self.scopes or f"{wider}!{filtered}={self.name}" in self.scopes
            for wider in GRANTED_BY.get(scope, (scope,))
        )

    def may_access(self, service: str) -> bool:
        """It holds the Hub's access scope for that service."""
        return bool({"access:services", f"access:services!service={service}"} & self.scopes)

    def missing_scope(self, access: Access) -> str | None:
        """The scope that it lacks for this access; None when it may."""
        scope = access.scope
        if scope is None or self.holds(scope) or (access is Access.MONITOR and self.is_service):
            return None
        return scope

    def caller(self) -> Caller:
        """As the controller knows callers. A service never shares a name with a user: those have no slash."""
        return Caller(
            user=f"service/{self.name}" if self.is_service else self.name,
            groups=self.groups,
            admin=self.holds(ADMIN_SCOPE),
        )
