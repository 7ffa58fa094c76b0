"""The log of the service: its set-up once the settings are known, and a trial of them that makes no handler."""

import copy
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from logging.config import DictConfigurator

from traitlets import Bool, Enum
from traitlets.config import Application
from traitlets.utils.nested_update import nested_update

from jupyter_gq.client.log_styles import describe_log
from jupyter_gq.controller.settings.process_end import forbid_process_end
from jupyter_gq.controller.settings.reading import Abandoned
from jupyter_gq.controller.settings.told_errors import describe_error
from jupyter_gq.controller.settings.traits import SettingsError
from jupyter_gq.domain.json_types import JsonMapping, JsonObject

#: The parts of a logging configuration that have names.
_KINDS = ("formatters", "filters", "handlers", "loggers")
#: Widths of fields, and digits of numbers, with which a line would not fit into memory, by the style of a format.
_WIDE: Mapping[object, re.Pattern[str]] = {
    logging.PercentStyle: re.compile(r"%\([^)]*\)[-#0+ ]*(\d{5,}|\d*\.\d{5,}[^sra\d])"),
    logging.StrFormatStyle: re.compile(r"\{[^{}]*:[^{}]*((?<![.\d])\d{5,}|\.\d{5,}[eEfFgGn%])"),
}


class LoggedApplication(Application):
    """An application that sets up the log of the process in `configure_log`, and not while its settings are read."""

    # No settings: in the Hub's file they would print all its values, also secret ones, and there would be no service.
    show_config, show_config_json = Bool(False), Bool(False)
    flags = {"debug": Application.flags["debug"]}
    #: The form of the log: "text" or "json".
    log_style: Enum[str]

    def _configure_logging(self) -> None:
        """Leave the log of the process as it is, whatever values the settings of the log get."""

    def get_default_logging_config(self) -> JsonObject:
        """Return the configuration beneath `logging_config`, without what a class or a factory named there lacks.

        The handler and the formatter "console" have arguments that only their own classes take.
        """
        config = super().get_default_logging_config()
        handler, formatter = (
            self.logging_config.get(kind, {}).get("console", {}) for kind in ("handlers", "formatters")
        )
        if "class" in handler or "()" in handler:
            del config["handlers"]["console"]["stream"]
        if "()" in handler:
            del config["handlers"]["console"]["class"]
        if "()" in formatter:
            config["formatters"]["console"] = {}
        return config

    def configure_log(self) -> str:
        """Make the whole process log in the style `log_style`; values of `logging_config` take precedence.

        If that fails, the log is set up without `log_format`, `log_datefmt` and `logging_config`, and a sentence that
        says so is returned. Returns "" otherwise.
        """
        try:
            with forbid_process_end():
                LoggedApplication.check_start(self)  # a format with an unknown field would fail at each line of the log
                self.logging_config = self._complete()
                super()._configure_logging()
        except BaseException as error:  # noqa: BLE001 - classes of the administrator may raise anything
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
        _check_shape(self.logging_config)
        try:
            _check_parts(nested_update(self.get_default_logging_config(), copy.deepcopy(self._complete())))
        except SettingsError as error:
            is_own = "console" in self.logging_config.get("formatters", {})
            if is_own or error.path != ("formatters", "console"):
                raise
            raise self._blame_format(error) from error.__cause__

    def _blame_format(self, error: SettingsError) -> SettingsError:
        """Return the error of the formatter "console" as one of the setting from which that has the faulty format."""
        try:
            logging.Formatter("%(asctime)s", self.log_datefmt).format(_make_record()).encode()
            name = "log_format"
        except Exception:  # noqa: BLE001 - as above
            name = "log_datefmt"
        fix = "write a format of Python's logging, or leave the line out"
        return SettingsError(f"SchedulerService.{name}", getattr(self, name), error.problem, fix)

    def _complete(self) -> JsonObject:
        """Return `logging_config` with what it does not say, in the style `log_style`."""
        return nested_update(describe_log(self.log_style, self.log_level), self.logging_config)


def _check_shape(given: JsonMapping) -> None:
    """Raise `SettingsError` for a part of `logging_config` that the merge with the other settings would leave out.

    Raises the error too for what changes no log that there is not yet.
    """
    with _blamed("version"):
        if given.get("version", 1) != 1:
            raise ValueError("the only version is 1")
    with _blamed("incremental"):
        if given.get("incremental"):
            raise ValueError("the service sets up its whole log once, when it starts")
    for kind in (*_KINDS, "root"):
        with _blamed(kind):
            part = _expect_dict(given.get(kind, {}))
        for name in part if kind in _KINDS else ():
            with _blamed(kind, str(name)):
                _expect_dict(part[name])


def _expect_dict(value: object) -> JsonMapping:
    """Return a value that is a dict; raise `TypeError` for any other."""
    if not isinstance(value, dict):
        raise TypeError("it is not a dict")
    return value


def _check_parts(config: JsonObject) -> None:
    """Raise `SettingsError` for the first part of a logging configuration that cannot be made, or writes no line.

    No handler is made: it might open a file or a connection. Formatters and filters are made, and tried on a record.
    """
    tried = DictConfigurator(config)
    for kind, make in (("formatters", tried.configure_formatter), ("filters", tried.configure_filter)):
        for name in tried.config.get(kind, {}):
            with _blamed(kind, str(name)):
                tried.config[kind][name] = make(tried.config[kind][name])
    for kind, check in (("handlers", _check_handler), ("loggers", _check_logger)):
        for name in tried.config.get(kind, {}):
            with _blamed(kind, str(name)):
                check(tried, tried.config[kind][name])
    with _blamed("root"):
        _check_logger(tried, tried.config.get("root", {}))
    for name in _list_own_handlers(tried.config):
        _try_line(tried, name)


@contextmanager
def _blamed(*path: str) -> Iterator[None]:
    """Raise `SettingsError` with the keys `path` of `logging_config` for any error in the block."""
    try:
        yield
    except Abandoned:
        raise
    except BaseException as error:  # a factory may end the process
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


def _list_own_handlers(config: JsonMapping) -> list[str]:
    """Return the names of the handlers that write all records of the service, and of those that such handlers name.

    Records that reach the handlers of other loggers, or of one with filters, may have more fields.
    """
    loggers = [config.get("loggers", {}).get(name, {}) for name in ("SchedulerService", "jupyter_gq")]
    own = [config.get("root", {}), *(entry for entry in loggers if not entry.get("filters"))]
    waiting = [name for entry in own for name in entry.get("handlers") or ()]
    found: dict[str, None] = {}
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found[name] = None
            with _blamed("handlers", name):
                target = config["handlers"][name].get("target")
            waiting += [target] if isinstance(target, str) and target in config["handlers"] else []
    return list(found)


def _try_line(tried: DictConfigurator, handler: str) -> None:
    """Raise `SettingsError` if a handler with its filters and its formatter could write no record of the service.

    Python's logging would lose each line. Formatters and filters must have been made.
    """
    entry, record, trial = tried.config["handlers"][handler], _make_record(), logging.Handler()
    with _blamed("handlers", handler):
        tried.add_filters(trial, entry.get("filters") or ())
        passed = trial.filter(record)
    if passed and entry.get("formatter"):
        with _blamed("formatters", entry["formatter"]):
            formatter = tried.config["formatters"][entry["formatter"]]
            wide = _WIDE.get(type(getattr(formatter, "_style", None)))
            if wide is not None and wide.search(formatter._fmt):
                raise ValueError("a width of more than 9999 characters")
            str(formatter.format(record)).encode()


def _make_record() -> logging.LogRecord:
    """Return a record as the service logs them."""
    return logging.getLogger("jupyter_gq").makeRecord("jupyter_gq.service", logging.INFO, __file__, 1, "", (), None)
