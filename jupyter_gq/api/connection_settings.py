"""The settings of the connections to the service."""

from traitlets.config import Configurable

from jupyter_gq.connections.limits import ConnectionLimits, most_connections, raise_file_limit
from jupyter_gq.connections.registry import Connections
from jupyter_gq.controller.settings.traits import Number


class ServiceConnections(Configurable):
    """The limits on connections to the service; a change takes effect when the service starts again."""

    max_connections = Number(
        4096,
        minimum=16,
        unit="connections",
        help="""The maximum number of open connections to the service. At the maximum, a new connection closes one that
        carries no authorised request: the oldest of the address with most of them. If there is none, new connections
        wait. The maximum is lower if the process may not open so many files, see `reserved_files`. Default: 4096.""",
    ).tag(config=True)
    max_anonymous_per_address = Number(
        512,
        minimum=1,
        unit="connections",
        help="""The maximum number of connections of one address that carry no authorised request: nothing or half a
        request has come, or the last request is answered. At a Unix socket, a system user counts as an address. At the
        maximum, a new connection closes the oldest. All browsers share the address of the Hub's proxy. Default:
        512.""",
    ).tag(config=True)
    max_requests_per_user = Number(
        64,
        minimum=1,
        unit="requests",
        help="""The maximum number of requests of one user, one pod or one task of a job at one time. Further requests
        are refused with status 429. Event streams are counted by `c.TrainingQueues.max_streams_per_user`; services of
        the Hub are not limited. Default: 64.""",
    ).tag(config=True)
    idle_timeout = Number(
        75,
        minimum=0.01,
        help="""Seconds in which the whole head of a request has to come, from the opening of the connection or from the
        last answer on; the connection is closed then. Default: 75.""",
    ).tag(config=True)
    body_timeout = Number(
        120,
        minimum=0.01,
        help="""Seconds in which the body of a request has to come; after that the request is refused with status 408,
        and the connection is closed. Default: 120.""",
    ).tag(config=True)
    write_timeout = Number(
        30,
        minimum=0.01,
        help="""Seconds after which a client is disconnected that reads nothing of an answer or a stream, while there is
        something to read. Default: 30.""",
    ).tag(config=True)
    reserved_files = Number(
        256,
        minimum=16,
        unit="files",
        help="""Open files that are kept for the service itself: for the database, jobs and requests to the Hub.
        The service raises its limit of open files (`ulimit -n`) to the hard limit when it starts. At most half of the
        limit is reserved. Default: 256.""",
    ).tag(config=True)

    def make_registry(self) -> Connections:
        """Raise the limit of open files of this process, and return an empty registry with these limits."""
        files = raise_file_limit()
        return Connections(
            ConnectionLimits(
                connections=most_connections(int(self.max_connections), files, int(self.reserved_files)),
                anonymous_per_peer=int(self.max_anonymous_per_address),
                requests_per_user=int(self.max_requests_per_user),
                idle_timeout=self.idle_timeout,
                body_timeout=self.body_timeout,
                write_timeout=self.write_timeout,
            )
        )
