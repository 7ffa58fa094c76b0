"""Notebook servers, which the Hub starts: watched, and ended through the Hub."""

from .backend import ServerRuns
from .settings import ServersBackend
from .stopper import HubServerStopper, ServerStopper

__all__ = ["HubServerStopper", "ServerRuns", "ServerStopper", "ServersBackend"]
