"""Configuration files of tests, read as the service reads them."""

from pathlib import Path

from jupyter_gq.controller.settings.early_execution import EarlyExecution
from jupyter_gq.controller.settings.last_good import LastGood
from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.controller.settings.trial import Trial, no_trial
from tests.fakes import a_node


def load(
    path: Path, stored: LastGood | None = None, early: EarlyExecution | None = None, trial: Trial = no_trial
) -> PolicyFile:
    """Load a file for a machine with one node of two GPUs; `stored` is the policy of an earlier service."""
    return PolicyFile(path, lambda: (a_node(2),), stored=stored, early=early, trial=trial)
