"""The objects that all endpoints of the API share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from jupyter_gq.connections.registry import Connections
from jupyter_gq.domain import output_bounds

from .auth import Authenticator
from .pods import PodAuthenticator
from .route import Size
from .services import Services, Status

#: Bytes of a job's bundle, if the configuration says nothing.
DEFAULT_BUNDLE = 20 * 1024 * 1024
SMALL_BODY = 1024 * 1024
LOG_BODY = 256 * 1024
#: Parts of files as base64: one of the largest, or many small ones.
FILES_BODY = 8 * 1024 * 1024
#: SHA-256 digests of as many parts as one question may have.
DIGESTS_BODY = 2 * 1024 * 1024
#: JSON values of a body; each takes some 60 bytes of memory.
SMALL_VALUES = 50_000
#: JSON values of a job's bundle, if the configuration says nothing.
DEFAULT_BUNDLE_VALUES = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Wiring:
    """The objects behind the endpoints of one service."""

    status: Status
    #: The objects that answer requests; None while another service leads.
    services: Services | None = None
    authenticator: Authenticator
    #: Returns the bytes that a job's bundle may have now; the configuration can change that.
    bundle_limit: Callable[[], int] = lambda: DEFAULT_BUNDLE
    #: Returns the JSON values that a job's bundle may have now.
    bundle_values: Callable[[], int] = lambda: DEFAULT_BUNDLE_VALUES
    #: Checks the tokens of pods; None: the routes for pods are not found.
    pods: PodAuthenticator | None = None
    #: The open connections of the server, with their limits.
    connections: Connections = field(default_factory=Connections)

    def body_limit(self, size: Size) -> int:
        """Return how many bytes a body of this size class may have.

        A bundle may be twice as long on the wire as its limit says, because text is escaped there.
        """
        if size is Size.BUNDLE:
            return 2 * self.bundle_limit() + SMALL_BODY
        known = {Size.OUTPUTS: output_bounds.REQUEST_SIZE, Size.LOG: LOG_BODY, Size.FILES: FILES_BODY}
        return {**known, Size.DIGESTS: DIGESTS_BODY}.get(size, SMALL_BODY)

    def most_values(self, size: Size) -> int:
        """Return how many JSON values a body of this size class may have."""
        if size is Size.BUNDLE:
            return self.bundle_values() + SMALL_VALUES
        return output_bounds.REQUEST_VALUES if size is Size.OUTPUTS else SMALL_VALUES
