"""The objects of the controller that answer requests, as the API needs them.

Each route calls one method of one of these objects. No class stands between: a new act is a method of its object and a
row in `api.routes`. See docs/decisions/0061-give-the-api-the-objects-that-do-the-work.md.
"""

from typing import Protocol

from jupyter_gq.client.models import Health
from jupyter_gq.controller.events import Broker
from jupyter_gq.controller.requests.audit import AuditReader
from jupyter_gq.controller.requests.drains import Drains
from jupyter_gq.controller.requests.job_changes import JobChanges
from jupyter_gq.controller.requests.job_deletions import JobDeletions
from jupyter_gq.controller.requests.job_lists import JobLists
from jupyter_gq.controller.requests.jobs import Jobs
from jupyter_gq.controller.requests.logs import JobLogs
from jupyter_gq.controller.requests.pods import JobPods, NodeAgents
from jupyter_gq.controller.requests.previews import Previews
from jupyter_gq.controller.requests.project_files import ProjectFiles
from jupyter_gq.controller.requests.tickets import Tickets
from jupyter_gq.controller.views.mentions import Mentions
from jupyter_gq.controller.views.overview import Overview


class Services(Protocol):
    """The objects of a service that leads; `controller.controller.Controller` has them.

    All of them raise `domain.errors`. An object that a caller may not see is `NotFound`.
    """

    @property
    def jobs(self) -> Jobs:
        """Jobs, for their owners and for their runners."""
        ...

    @property
    def logs(self) -> JobLogs:
        """The logs of jobs, in parts."""
        ...

    @property
    def job_lists(self) -> JobLists:
        """Lists of jobs, for their owners, for managers and for admins."""
        ...

    @property
    def job_changes(self) -> JobChanges:
        """Changes of jobs that have not ended."""
        ...

    @property
    def job_deletions(self) -> JobDeletions:
        """The deletion of jobs that have ended."""
        ...

    @property
    def previews(self) -> Previews:
        """Previews of jobs that have not been sent yet."""
        ...

    @property
    def pods(self) -> JobPods:
        """The tokens and files of jobs that run in pods."""
        ...

    @property
    def files(self) -> ProjectFiles:
        """The files of projects that jobs take along."""
        ...

    @property
    def agents(self) -> NodeAgents:
        """The reports and orders of node agents."""
        ...

    @property
    def tickets(self) -> Tickets:
        """Notebook servers and their shares."""
        ...

    @property
    def drains(self) -> Drains:
        """Nodes and devices that are taken out of service."""
        ...

    @property
    def audit(self) -> AuditReader:
        """The audit log."""
        ...

    @property
    def overview(self) -> Overview:
        """Quotas, queues, devices, and the scheduler's whole input."""
        ...

    @property
    def mentions(self) -> Mentions:
        """The names that a reader sees."""
        ...

    @property
    def events(self) -> Broker:
        """The changes that a listener may see."""
        ...


class Status(Protocol):
    """The condition of a service, which also a service that waits for its place can tell."""

    def check_health(self) -> Health:
        """Return whether the service is well, with everything that is wrong, as admins may read it."""
        ...

    def explain_unready(self) -> str:
        """Return as a sentence why requests should come later or go elsewhere; "" = this service answers them."""
        ...
