"""Operations on backends that are tried again in the next step if they fail."""

import logging
from collections.abc import Awaitable, Callable

from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.workload import Workload

log = logging.getLogger(__name__)


async def attempt(workload: Workload, what: str, operation: Callable[[], Awaitable[None]]) -> bool:
    """Run an operation on a backend, and return True; log a `BackendError` or `OSError`, and return False.

    `what` completes the message "could not be ...". The caller tries again in the next step.
    """
    try:
        await operation()
    except (BackendError, OSError) as error:
        log.warning("%s could not be %s, it is tried again: %s", workload.id, what, error, extra=workload.log_fields)
        return False
    return True
