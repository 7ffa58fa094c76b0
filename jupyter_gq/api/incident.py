"""Unexpected errors of requests: each is logged under an id, and only the id is sent to the requester."""

import logging
import secrets
from types import TracebackType

from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, RequestHandler

from . import errors
from .errors import ApiRefusal, refusal_of

log = logging.getLogger(__name__)


class LogsIncidents(RequestHandler):
    """A handler whose unexpected errors have an id in the log."""

    _incident = "none"

    def log_exception(
        self, typ: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Log an unexpected error with its traceback under a new id. Refusals and closed connections are not logged."""
        if refusal_of(value) is None and not isinstance(value, HTTPError | StreamClosedError):
            self._incident = secrets.token_hex(4)
            ids = {"incident": self._incident}
            log.error("request_failed id=%s %s %s", self._incident, *self._method_and_path(), exc_info=value, extra=ids)

    def refusal_for(self, error: BaseException | None) -> ApiRefusal:
        """Return the refusal of a request that ended with `error`; for an unexpected error, 500 with the logged id.

        A machine without free threads, open files or memory is answered with 503, and that is logged as well.
        A refusal of tornado itself, for instance of a method that it does not know, keeps its status. A requester who
        has disconnected gets no answer; 499 is only for the log, in which it is no error of the service.
        """
        if isinstance(error, StreamClosedError):
            return errors.refusal(499, "disconnected", "The requester has disconnected.")
        if isinstance(error, HTTPError) and error.status_code == 405:
            return self.refuse_method()
        if isinstance(error, HTTPError) and error.status_code < 500:
            message = f"The request cannot be understood: {self._reason}."
            return errors.refusal(error.status_code, "bad_request", message)
        return refusal_of(error) or errors.exhausted(error) or errors.internal(self._incident)

    def refuse_method(self) -> ApiRefusal:
        """Return the refusal of 405 for a method that a page does not have."""
        return errors.method_not_allowed(self.request.method, ["GET"])

    def _method_and_path(self) -> tuple[str | None, str]:
        return self.request.method, self.request.path
