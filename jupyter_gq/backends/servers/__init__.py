"""Notebook servers, which the Hub starts: watched, and ended through the Hub."""

from .backend import ServerRuns
from .settings import ServersBackend

__all__ = ["ServerRuns", "ServersBackend"]
