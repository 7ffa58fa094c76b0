"""The right to call a route, which follows from Hub scopes or from the cluster's answer, never from a caller's claim.

Rules
-----
- Two scopes: a Hub token must carry the access scope of this service and the custom scope of the route.
- Wider scopes: admin implies submit, submit implies change and delete, and each of these implies read. The Hub expands
  this itself. The rule is repeated here so that a Hub whose scopes were declared without their subscopes does not lock
  its admins out.
- Filters: a scope with a filter grants nothing beyond it. A filter that names the caller (`custom:gq:read!user=ann` for
  ann) grants the caller's own objects, which is all that reading and submitting is about, and never those of others:
  a filtered admin scope makes no admin, and a filtered change scope no manager of others' jobs. Other filters
  (`!group`, `!server`, other users) grant nothing.
- Job tokens: a job token opens the routes of its own job's runner and no others; a Hub token does not open these.
- Pod tokens: the token of a pod opens what its service account is for, on Kubernetes only; see `api.pods`.
"""

from dataclasses import dataclass
from enum import StrEnum

from jupyter_gq.controller.caller import Caller

READ_SCOPE = "custom:gq:read"
SUBMIT_SCOPE = "custom:gq:submit"
#: Holding, changing and cancelling jobs, without the right to send code.
CHANGE_SCOPE = "custom:gq:change"
#: Deleting jobs that have ended, without the right to change others or to send code.
DELETE_SCOPE = "custom:gq:delete"
ADMIN_SCOPE = "custom:gq:admin"

#: The scopes that grant a scope: the scope itself and every wider one.
GRANTED_BY: dict[str, tuple[str, ...]] = {
    READ_SCOPE: (READ_SCOPE, CHANGE_SCOPE, DELETE_SCOPE, SUBMIT_SCOPE, ADMIN_SCOPE),
    CHANGE_SCOPE: (CHANGE_SCOPE, SUBMIT_SCOPE, ADMIN_SCOPE),
    DELETE_SCOPE: (DELETE_SCOPE, SUBMIT_SCOPE, ADMIN_SCOPE),
    SUBMIT_SCOPE: (SUBMIT_SCOPE, ADMIN_SCOPE),
    ADMIN_SCOPE: (ADMIN_SCOPE,),
}


class Access(StrEnum):
    """The proof that a route demands."""

    PUBLIC = "public"
    OPEN = "open"  # everybody; admins, who show their token, are told more
    READ = "read"
    CHANGE = "change"
    DELETE = "delete"
    SUBMIT = "submit"
    MONITOR = "monitor"  # an admin, or any service of the Hub that may access this service
    ADMIN = "admin"
    JOB_TOKEN = "job_token"  # noqa: S105 - a kind of access, not a secret
    POD = "pod"  # the pod of a job's task
    AGENT = "agent"  # the agent of the node in the path

    @property
    def scope(self) -> str | None:
        """The custom scope that a Hub token needs for the route; None if the route demands no custom scope."""
        return _SCOPES.get(self)


_SCOPES = {
    Access.READ: READ_SCOPE,
    Access.CHANGE: CHANGE_SCOPE,
    Access.DELETE: DELETE_SCOPE,
    Access.SUBMIT: SUBMIT_SCOPE,
    Access.MONITOR: ADMIN_SCOPE,
    Access.ADMIN: ADMIN_SCOPE,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """The holder of a Hub token, as the Hub describes them."""

    name: str
    #: The holder is a service of the Hub, not a person.
    is_service: bool
    groups: frozenset[str]
    #: All scopes of the token, as the Hub expanded them.
    scopes: frozenset[str]

    def holds(self, scope: str) -> bool:
        """Return whether the token grants this scope by itself, or by a wider scope.

        A scope that is limited to the holder counts as well, except for the admin scope.
        """
        granting = GRANTED_BY.get(scope, (scope,))
        if self._holds_for_all(scope):
            return True
        own = f"{'service' if self.is_service else 'user'}={self.name}"
        return scope != ADMIN_SCOPE and any(f"{wider}!{own}" in self.scopes for wider in granting)

    def _holds_for_all(self, scope: str) -> bool:
        """Return whether the token grants this scope without a filter, by itself or by a wider scope."""
        return any(wider in self.scopes for wider in GRANTED_BY.get(scope, (scope,)))

    def may_access(self, service: str) -> bool:
        """Return whether the token has the Hub's access scope for all services or for the service of that name."""
        return bool({"access:services", f"access:services!service={service}"} & self.scopes)

    def missing_scope(self, access: Access) -> str | None:
        """Return the custom scope that this access demands and the token lacks; None if the token lacks none.

        Services of the Hub need no scope for `Access.MONITOR`.
        """
        scope = access.scope
        if scope is None or self.holds(scope) or (access is Access.MONITOR and self.is_service):
            return None
        return scope

    def as_caller(self) -> Caller:
        """Return the holder as a caller for the controller, who is an admin if the token holds the admin scope.

        The name of a service gets the prefix "service/", because no user name has a slash.
        """
        return Caller(
            user=f"service/{self.name}" if self.is_service else self.name,
            groups=self.groups,
            admin=self.holds(ADMIN_SCOPE),
            own_only=not self._holds_for_all(CHANGE_SCOPE),
        )
