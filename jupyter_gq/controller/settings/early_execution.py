"""The execution of the configuration file with which the service begins, before there is anything that it configures.

The service needs its own settings before it can make the parts that the policy is checked against. The file is executed
once for both: a file that takes long, or hangs, holds up the start only once.
"""

from pathlib import Path

from traitlets.config import Config

from .config_file import ExecutedFiles, identify, load_config
from .reading import Reading
from .trial import Trial, no_trial


class EarlyExecution:
    """An execution of a configuration file in a thread."""

    def __init__(self, path: Path, trial: Trial = no_trial) -> None:
        """Begin to execute the file, after its trial."""
        #: The files that were executed, each with its identity when that began.
        self.executed = ExecutedFiles()
        self.reading = Reading(lambda: self._load(path.absolute(), trial))

    def _load(self, path: Path, trial: Trial) -> Config:
        trial(path, self.executed)
        return load_config(path, self.executed)

    def take(self) -> Config | None:
        """Wait for the end of the execution, and return what the file sets.

        Returns None if no file was executed, or if an executed file has changed since; then the caller executes it
        again. Raises `ConfigFileError` as `load_config` does.
        """
        self.reading.wait_for_end()
        if not self.executed or self.executed != {path: identify(path) for path in self.executed}:
            return None
        return self.reading.result()
