"""The workloads that a step set aside because of a failure: each is named to the administrator and tried again.

Rules
-----
One workload: a failure that concerns one workload ends the work on that workload alone; the step goes on.
Not the store: a store that does not answer concerns all workloads, so its errors are raised.
Named once: a failure is logged when it first occurs, and listed until the same work on the same workload succeeds.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from jupyter_gq.domain.errors import (
    NotLeading,
    StatementCancelled,
    StorageFull,
    StoreAway,
    StoreUnavailable,
    Superseded,
)

log = logging.getLogger(__name__)

Result = TypeVar("Result")

#: Errors that concern every workload.
_OF_ALL = (NotLeading, StatementCancelled, StorageFull, StoreAway, StoreUnavailable, Superseded)


class SetAside:
    """The failures of work on single workloads."""

    def __init__(self) -> None:
        #: The failure of each work on each workload: (workload, work).
        self._failures: dict[tuple[str, str], str] = {}

    def attempt(self, workload: str, work: str, operation: Callable[[], Result]) -> Result | None:
        """Return the result of `operation`; if it fails, set the workload aside and return None.

        `work` names the operation in the log, such as "observing". A success ends an earlier failure of the same work.
        Errors that concern all workloads, such as those of the store, are raised.
        """
        with self.handling(workload, work):
            return operation()
        return None

    @contextmanager
    def handling(self, workload: str, work: str) -> Iterator[None]:
        """Set the workload aside if the body of the `with` statement fails, and suppress that error.

        Errors that concern all workloads are raised; a success ends an earlier failure, as in `attempt`.
        """
        try:
            yield
        except _OF_ALL:
            raise
        except Exception as error:  # noqa: BLE001 - the defect of one workload must not end the step
            self.add(workload, work, error)
        else:
            self._failures.pop((workload, work), None)

    def add(self, workload: str, work: str, error: Exception) -> None:
        """Record that `work` on a workload failed; log the error unless it is the same as before."""
        told = f"{type(error).__name__}: {error}"
        if self._failures.get((workload, work)) != told:
            log.error(
                "%s is set aside: %s it failed. %s", workload, work, told, exc_info=error, extra={"workload": workload}
            )
        self._failures[(workload, work)] = told

    def forget(self, workload: str) -> None:
        """Delete the recorded failures of a workload, which has ended or changed."""
        self._failures = {key: told for key, told in self._failures.items() if key[0] != workload}

    def describe(self, workload: str) -> str:
        """Return a sentence for the owner of a workload that is set aside; "" for any other workload."""
        if workload not in self.workloads:
            return ""
        return "The scheduler cannot handle this workload and has set it aside. Ask your administrator to read the log."

    @property
    def workloads(self) -> frozenset[str]:
        """The workloads that are set aside."""
        return frozenset(workload for workload, _ in self._failures)

    def sentences(self) -> list[str]:
        """Return a sentence for the administrator about each failure, sorted by workload."""
        return [f"{workload}: {work} it failed. {told}" for (workload, work), told in sorted(self._failures.items())]
