"""The backend for notebook servers, which the Hub starts; the backend observes them, and stops them through the Hub."""

from .backend import ServerRuns
from .settings import ServersBackend

__all__ = ["ServerRuns", "ServersBackend"]
