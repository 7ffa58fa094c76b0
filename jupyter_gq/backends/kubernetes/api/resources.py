"""Kinds of objects in the cluster and their addresses. Needs no Kubernetes client."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiResource:
    """A kind of objects."""

    plural: str
    #: The word for one object, for messages.
    noun: str
    group: str = ""
    version: str = "v1"

    def path(self, namespace: str = "", name: str = "") -> str:
        """Return the URL path of an object; without a name, of all objects in the namespace or in the whole cluster."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [base, *(["namespaces", namespace] if namespace else []), self.plural, *([name] if name else [])]
        return "/".join(parts)


PODS = ApiResource(plural="pods", noun="pod")
NODES = ApiResource(plural="nodes", noun="node")
SERVICES = ApiResource(plural="services", noun="service")
JOBS = ApiResource(plural="jobs", noun="Job", group="batch")
EVENTS = ApiResource(plural="events", noun="event")
LEASES = ApiResource(plural="leases", noun="lease", group="coordination.k8s.io")
REVIEWS = ApiResource(plural="tokenreviews", noun="token review", group="authentication.k8s.io")
