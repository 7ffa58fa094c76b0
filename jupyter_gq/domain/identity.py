"""Who speaks, where it is no person."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PodIdentity:
    """The pod that a service-account token was made for, as the cluster vouches for it."""

    namespace: str
    service_account: str
    #: Name of the pod.
    pod: str
    #: Unique for ever, unlike the name.
    uid: str
    #: Name of its node; "" when the cluster does not say.
    node: str = ""
    #: When the token ends by its own word, in seconds since the epoch; None when it does not say.
    expires: float | None = None
