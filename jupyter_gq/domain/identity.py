"""The identity of callers that are pods, not people."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PodIdentity:
    """The pod for which a service-account token was made, as the cluster confirms it."""

    namespace: str
    service_account: str
    #: Name of the pod.
    pod: str
    #: Id that no other pod ever gets, unlike the name.
    uid: str
    #: Name of the pod's node; "" if the cluster does not tell it.
    node: str = ""
    #: End of the token in seconds since the epoch; None if the token does not tell it.
    expires: float | None = None
