"""The log of the service: its set-up once the settings are known, and a trial of them that makes no handler."""

import copy
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from logging.config import DictConfigurator

from traitlets import Bool, Enum
from traitlets.config import Application
from traitlets.config.application import LevelFormatter
from traitlets.utils.nested_update import nested_update

from jupyter_gq.client.log_styles import describe_log
from jupyter_gq.controller.settings.told_errors import describe_error
from jupyter_gq.controller.settings.traits import SettingsError
from jupyter_gq.domain.json_types import JsonMapping, JsonObject


class LoggedApplication(Application):
    """An application that sets up the log of the process in `configure_log`, and not while its settings are read."""

    # No settings: in the Hub's file they would print all its values, also secret ones, and there would be no service.
    show_config, show_config_json = Bool(False), Bool(False)
    flags = {"debug": Application.flags["debug"]}
    #: The form of the log: "text" or "json".
    log_style: Enum[str]

    def _configure_logging(self) -> None:
        """Leave the log of the process as it is, whatever values the settings of the log get."""

    def configure_log(self) -> str:
        """Make the whole process log in the style `log_style`; values of `logging_config` take precedence.

        If that fails, the log is set up without `log_format`, `log_datefmt` and `logging_config`, and a sentence that
        says so is returned. Returns "" otherwise.
        """
        try:
            LoggedApplication.check_start(self)  # a format with an unknown field would fail at each line of the log
            self.logging_config = self._complete()
            super()._configure_logging()
        except Exception as error:  # noqa: BLE001 - classes of the administrator may raise anything
            for name in ("log_format", "log_datefmt"):
                setattr(self, name, self.trait_defaults(name))
            self.logging_config = describe_log(self.log_style, self.log_level)
            super()._configure_logging()
            return (
                "c.SchedulerService.log_format, log_datefmt and logging_config are not in force, because no log can be "
                f"written so ({describe_error(error.__cause__ or error)}). Mend that, and start the service again."
            )
        return ""

    def check_start(self) -> None:
        """Raise `SettingsError` if no log can be written with these settings, as far as is known without opening it."""
        if not self.logging_config:  # which may give a format another style, and records more fields
            _check_format("log_format", self.log_format, self.log_format, None)
            _check_format("log_datefmt", self.log_datefmt, "%(asctime)s", self.log_datefmt)
        _check_parts(nested_update(self.get_default_logging_config(), copy.deepcopy(self._complete())))

    def _complete(self) -> JsonObject:
        """Return `logging_config` with what it does not say, in the style `log_style`."""
        return nested_update(describe_log(self.log_style, self.log_level), self.logging_config)


def _check_format(name: str, value: str, line: str, date: str | None) -> None:
    """Raise `SettingsError` with the name and the value of a setting if these formats of a line and its date fail."""
    try:
        LevelFormatter(line, date).format(logging.makeLogRecord({"levelno": logging.INFO})).encode()
    except Exception as error:
        fix = "write a format of Python's logging, or leave the line out"
        raise SettingsError(f"SchedulerService.{name}", value, f"no log can have it ({error})", fix) from error


def _check_parts(config: JsonObject) -> None:
    """Raise `SettingsError` for the first part of a logging configuration that cannot be made.

    No handler is made: it might open a file or a connection. Formatters and filters are made.
    """
    tried = DictConfigurator(config)
    makers: dict[str, Callable[[JsonObject], object]] = {
        "formatters": tried.configure_formatter,
        "filters": tried.configure_filter,
        "handlers": partial(_check_handler, tried),
        "loggers": partial(_check_logger, tried),
    }
    for kind, make in makers.items():
        for name in tried.config.get(kind, {}):
            with _blamed(kind, str(name)):
                make(tried.config[kind][name])
    with _blamed("root"):
        _check_logger(tried, tried.config.get("root", {}))


@contextmanager
def _blamed(*path: str) -> Iterator[None]:
    """Raise `SettingsError` with the keys `path` of `logging_config` for any error in the block."""
    try:
        yield
    except Exception as error:
        problem = f"no log can have it ({describe_error(error)})"
        fix = "write it as Python's logging.config.dictConfig reads it"
        raise SettingsError("SchedulerService.logging_config", "…", problem, fix, path=path) from error


def _check_handler(tried: DictConfigurator, entry: JsonMapping) -> None:
    """Raise any error if a handler names a class, a level, a formatter or a filter that there is not."""
    made_by = entry["()"] if "()" in entry else entry["class"]
    if not callable(made_by):
        tried.resolve(made_by)
    _check_logger(tried, entry)
    _check_known(tried, "formatters", filter(None, [entry.get("formatter")]))


def _check_logger(tried: DictConfigurator, entry: JsonMapping) -> None:
    """Raise any error if a logger names a level, a handler or a filter that there is not."""
    logging.Logger("tried", entry.get("level") or 0)
    _check_known(tried, "handlers", entry.get("handlers") or ())
    _check_known(tried, "filters", [each for each in entry.get("filters") or () if isinstance(each, str)])


def _check_known(tried: DictConfigurator, kind: str, names: Iterable[str]) -> None:
    """Raise `ValueError` if a name is not among the parts of a kind."""
    for name in names:
        if name not in tried.config.get(kind, {}):
            raise ValueError(f"there is no {name!r} among its {kind}")
