"""The errors of the commands on a database."""

from collections.abc import Iterator
from contextlib import contextmanager

from jupyter_gq.domain.errors import AdminError, JupyterGQError, StoreUnavailable


@contextmanager
def raised_to_admin() -> Iterator[None]:
    """Raise errors of this package in the block as `AdminError`, which a command prints.

    For a database that cannot be used the sentence says what to do, since no service tries again here.
    """
    try:
        yield
    except StoreUnavailable as error:
        raise AdminError(
            f"The database {error.place} could not be used ({error.told}). Check that the database can be reached, "
            "that your account may write to it, and that no other program keeps it locked, as a service does that was "
            "not stopped. Then run the command again."
        ) from error
    except AdminError:
        raise
    except JupyterGQError as error:
        raise AdminError(str(error)) from error
