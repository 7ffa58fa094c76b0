"""Waiting for what a cluster does by itself."""

from tests.patience import PATIENCE, eventually, until

__all__ = ["PATIENCE", "eventually", "until"]
