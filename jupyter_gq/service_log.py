"""The log of the service: its set-up once the settings are known, and a trial of them that opens none of its files.

See docs/decisions/0485-check-at-once-what-the-next-start-reads.md,
docs/decisions/0463-take-no-pipe-for-the-file-of-the-log.md and
docs/decisions/0478-make-the-handlers-of-the-log-with-a-deadline.md.
"""

import codecs
import copy
import inspect
import logging
import operator
import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from logging.config import DictConfigurator, dictConfig
from logging.handlers import MemoryHandler, QueueHandler, RotatingFileHandler, TimedRotatingFileHandler
from pathlib import Path

from traitlets import Bool, Enum
from traitlets.config import Application
from traitlets.utils.nested_update import nested_update

from jupyter_gq.client.log_styles import describe_log
from jupyter_gq.controller.settings import reading
from jupyter_gq.controller.settings.process_end import forbid_process_end
from jupyter_gq.controller.settings.reading import Abandoned, Reading
from jupyter_gq.controller.settings.told_errors import describe_error, describe_refusal
from jupyter_gq.controller.settings.traits import SettingsError
from jupyter_gq.domain.json_types import JsonMapping, JsonObject
from jupyter_gq.domain.plain_text import quoted

#: The parts of a logging configuration that have names.
_KINDS = ("formatters", "filters", "handlers", "loggers")
#: What an entry of a handler has beside the arguments with which the handler is made.
_NO_ARGUMENTS = ("class", "formatter", "level", "filters")
#: Most earlier files that a log may keep by number: each of them is renamed when the file is changed.
_MOST_FILES = 100_000
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
        """Set up the log of this process from the settings of this application; call it once, when the service starts.

        `log_style`, `log_level`, `log_format` and `log_datefmt` say how lines look and which are written. What
        `logging_config` says takes precedence. Handlers are made, so that files of the log are opened or created.

        Returns "" if the log is as the settings say. If no log can be set up so, the log goes to the standard error
        output, without `log_format`, `log_datefmt` and `logging_config`, and a sentence for administrators is returned
        that says what is wrong and what to do. The cause may be a value that `check_start` refuses, a file that cannot
        be opened, a named pipe, or a handler that raises an error, ends the process, or is not made in `READ_TIMEOUT`.

        Raises nothing but `KeyboardInterrupt`, after Ctrl+C.
        """
        try:
            made = self._make_in_time()
            self.logging_config = self._complete()
            _put_in_force(made)
            self._logging_configured = True
        except BaseException as error:  # classes of the administrator may raise anything
            if _is_ctrl_c(error):
                raise
            for name in ("log_format", "log_datefmt"):
                setattr(self, name, self.trait_defaults(name))
            self.logging_config = describe_log(self.log_style, self.log_level)
            super()._configure_logging()
            return (
                "c.SchedulerService.log_format, log_datefmt and logging_config are not in force, because no log can be "
                f"written so ({_describe_failure(error)}). Mend that, and start the service again."
            )
        return ""

    def check_start(self) -> None:
        """Raise `SettingsError` if no log can be written with these settings, as far as is known without opening it."""
        self._try_settings()

    def _try_settings(self) -> DictConfigurator:
        """Return the settings of the log with the formatters and filters made; raise `SettingsError` as above."""
        _check_shape(self.logging_config)
        try:
            return _check_parts(self._merge())
        except SettingsError as error:
            is_own = "console" in self.logging_config.get("formatters", {})
            if is_own or error.path != ("formatters", "console"):
                raise
            raise self._blame_format(error) from error.__cause__

    def describe_log_faults(self) -> list[str]:
        """Return a sentence for each file of `logging_config` that this process could not write; open none of them.

        Each sentence says which handler is meant, what is wrong with the file, and what to do. Paths that are not
        absolute begin in the working folder of this process. Handlers are left out that are no file handlers of
        Python's logging, because nothing is known of how they open a file. Raises `SettingsError` as `check_start` does
        if the settings are no configuration of a log.
        """
        _check_shape(self.logging_config)
        files = self._list_log_files().items()
        faults = [(name, _find_obstacle(path) or _find_lacking_right(path)) for name, path in files]
        return [
            f"c.SchedulerService.logging_config['handlers'][{name!r}]: {fault[0]}. The service could not write its log "
            f"so: {fault[1]}."
            for name, fault in faults
            if fault is not None
        ]

    def _make_in_time(self) -> DictConfigurator:
        """Return the settings of the log with all parts made; raise `SettingsError` if that exceeds `READ_TIMEOUT`.

        Raises any error of a part, and what `check_start` raises: a format with an unknown field would fail at each
        line of the log.
        """
        begun: list[str] = []

        def make() -> DictConfigurator:
            with forbid_process_end():
                tried = self._try_settings()
                self._expect_log_files()
                _forget_handlers(tried)
                _make_handlers(tried, begun)
            return tried

        before = [*logging._handlerList]  # type: ignore[attr-defined]
        making = Reading(make)  # Python's own set-up has the lock of all loggers meanwhile, and so nobody could go on
        if not making.wait_in_time():
            making.abandon()
            # An unfinished handler may have its own lock, for which the next set-up and the end would wait.
            logging._handlerList[:] = before  # type: ignore[attr-defined]
            silent = "a file system, another machine or other code does not answer"
            problem = f"it is not ready after {reading.READ_TIMEOUT:g} s: {silent}"
            fix = "write the log to the standard error output, and let a collector send it"
            path = ("handlers", begun[-1]) if begun else ()
            raise SettingsError("SchedulerService.logging_config", "…", problem, fix, path=path)
        return making.result()

    def _expect_log_files(self) -> None:
        """Raise `SettingsError` for a file of the log that cannot be opened, or whose opening would not end.

        A missing folder may come before the file is opened: another handler may make it, or the file is opened late.
        """
        for name, path in self._list_log_files().items():
            if fault := _find_obstacle(path, folder_may_come=True):
                raise SettingsError("SchedulerService.logging_config", "…", *fault, path=("handlers", name))

    def _list_log_files(self) -> dict[str, Path]:
        """Return the absolute paths of the files that handlers of Python's logging open, by name of the handler."""
        tried = DictConfigurator(self._merge())
        found: dict[str, Path] = {}
        for name in tried.config.get("handlers", {}):
            with _blamed("handlers", str(name)):
                entry = tried.config["handlers"][name]
                if _opens_file(_find_maker(tried, entry)) and "filename" in entry:
                    found[str(name)] = Path(os.path.abspath(os.fsdecode(entry["filename"])))
        return found

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

    def _merge(self) -> JsonObject:
        """Return a configuration of the whole log, which the caller may change."""
        return nested_update(self.get_default_logging_config(), copy.deepcopy(self._complete()))


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
    with _blamed():
        _expect_names(given)
    for kind in (*_KINDS, "root"):
        with _blamed(kind):
            part = _expect_names(_expect_dict(given.get(kind, {})))
        for name in part if kind in _KINDS else ():
            with _blamed(kind, name):
                _expect_names(_expect_dict(part[name]))


def _expect_names(given: JsonMapping) -> JsonMapping:
    """Return a dict whose keys are texts; raise `TypeError` for any other."""
    for key in given:
        if not isinstance(key, str):
            raise TypeError(f"its key {quoted(key)} is not text")
    return given


def _expect_dict(value: object) -> JsonMapping:
    """Return a value that is a dict; raise `TypeError` for any other."""
    if not isinstance(value, dict):
        raise TypeError("it is not a dict")
    return value


def _check_parts(config: JsonObject) -> DictConfigurator:
    """Raise `SettingsError` for the first part of a logging configuration that cannot be made, or writes no line.

    No handler is made that might open a file or a connection. Formatters and filters are made, and tried on a record.
    Returns the configuration with them in their places.
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
    return tried


def _forget_handlers(tried: DictConfigurator) -> None:
    """Close the handlers that there are in this process, and take them from the loggers that a configuration names."""
    loggers: JsonObject = {name: {} for name in tried.config.get("loggers", {})}
    others = tried.config.get("disable_existing_loggers", True)
    dictConfig({"version": 1, "loggers": loggers, "root": {"handlers": []}, "disable_existing_loggers": others})


def _make_handlers(tried: DictConfigurator, begun: list[str]) -> None:
    """Make the handlers of a configuration, those that name others last; add the name of each to `begun` before.

    Raises `ValueError` with the error of a handler as its cause.
    """
    handlers = tried.config.get("handlers", {})
    for name in sorted(handlers, key=lambda name: ("target" in handlers[name] or "handlers" in handlers[name], name)):
        begun.append(name)
        try:
            made = tried.configure_handler(handlers[name])
            made.name = name
        except BaseException as error:
            raise ValueError(f"Unable to configure handler {name!r}") from error
        handlers[name] = made


def _put_in_force(tried: DictConfigurator) -> None:
    """Give the loggers of a configuration their handlers, which have been made, and all else that it says of them."""
    for name, entry in tried.config.get("loggers", {}).items():
        tried.configure_logger(name, entry)
    tried.configure_root(tried.config.get("root", {}))


@contextmanager
def _blamed(*path: str) -> Iterator[None]:
    """Raise `SettingsError` with the keys `path` of `logging_config` for any error in the block."""
    try:
        yield
    except Abandoned:
        raise
    except BaseException as error:  # a factory may end the process
        if _is_ctrl_c(error):
            raise
        problem = f"no log can have it ({describe_error(error)})"
        fix = "write it as Python's logging.config.dictConfig reads it"
        raise SettingsError("SchedulerService.logging_config", "…", problem, fix, path=path) from error


def _is_ctrl_c(error: BaseException) -> bool:
    """Return whether somebody has interrupted this process; only its main thread is told so.

    In another thread, the code of an administrator has raised the error.
    """
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _describe_failure(error: BaseException) -> str:
    """Return what an error of a set-up says, with what has caused it, without the last full stop."""
    if isinstance(error, SettingsError):
        return describe_refusal(error).rstrip(".")
    if error.__cause__ is None:
        return describe_error(error)
    return f"{describe_refusal(error) if isinstance(error, ValueError) else describe_error(error)}: " + describe_error(
        error.__cause__
    )


def _find_maker(tried: DictConfigurator, entry: JsonMapping) -> object:
    """Return the class or the function that makes a handler; raise any error if there is none."""
    made_by = entry["()"] if "()" in entry else entry["class"]
    if not callable(made_by) and not isinstance(made_by, str):
        raise TypeError("its class is no name of a class")
    return made_by if callable(made_by) else tried.resolve(made_by)


def _opens_file(maker: object) -> bool:
    """Return whether a handler is one of Python's logging that opens the file of its argument `filename`.

    A class of others with its own way to open a file, or to make the folder first, is none.
    """
    if not (isinstance(maker, type) and issubclass(maker, logging.FileHandler)):
        return False
    is_plain = maker._open is logging.FileHandler._open
    return is_plain and maker.__init__.__module__.partition(".")[0] == "logging"


def _find_obstacle(path: Path, *, folder_may_come: bool = False) -> tuple[str, str] | None:
    """Return why nobody could write the file of a log at this path, and what to do; None if nothing is in the way.

    The file itself may be missing, and its folder if `folder_may_come`. What this account may not see is not judged.
    Nothing is opened.
    """
    other = "name another file"
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        folder = Path(os.path.realpath(path)).parent
        missing = (f"the folder {folder} of the file {path} does not exist", f"make that folder, or {other}")
        return None if folder_may_come or folder.exists() else missing
    except PermissionError:
        return None
    except (OSError, ValueError) as error:  # a ValueError: a path that no system takes
        why = error.strerror if isinstance(error, OSError) else error
        return f"the file {quoted(str(path))} cannot be there ({why})", other
    if stat.S_ISDIR(mode):
        return f"{path} is a folder", "name a file in it"
    # A pipe or a socket without a name, such as that of /dev/stdout, has its reader.
    if stat.S_ISFIFO(mode) and os.path.exists(os.path.realpath(path)):
        return f"{path} is a pipe, and to open it takes a program that reads from it", other
    if stat.S_ISSOCK(mode) and os.path.exists(os.path.realpath(path)):
        return f"{path} is a socket", other
    return None


def _find_lacking_right(path: Path) -> tuple[str, str] | None:
    """Return that this account may not write a file, or make a missing one, and what to do; None if it may."""
    fix = "give the account of the Hub that right, or name another file"
    real = Path(os.path.realpath(path))
    try:
        there = path if path.exists() else real.parent
    except PermissionError:
        there = real.parent
    right = os.W_OK if there == path else os.W_OK | os.X_OK
    if os.access(there, right, effective_ids=True):
        return None
    where = there if there == path else f"in {there}, the folder of the file {path}"
    return f"the account {os.geteuid()}, which runs this check, may not write {where}", fix


def _check_handler(tried: DictConfigurator, entry: JsonMapping) -> None:
    """Raise any error if a handler names a class, a level, a formatter or a filter that there is not.

    The same holds for its arguments, which are looked up as Python's logging does. Handlers of Python's logging that
    write to a file or to another handler are made without these, and tried.
    """
    maker = _find_maker(tried, entry)
    names = [key for key in entry if key.isidentifier()]  # what has another name is not looked up
    arguments = {key: entry[key] for key in names}  # looks up values such as "ext://sys.stderr"
    for name in _NO_ARGUMENTS:
        arguments.pop(name, None)
    _check_logger(tried, entry)
    _check_known(tried, "formatters", filter(None, [entry.get("formatter")]))
    if not (isinstance(maker, type) and issubclass(maker, logging.Handler)):
        if "()" in entry:
            return  # a factory
        raise TypeError("its class is no class of handlers")
    if "class" in entry and issubclass(maker, MemoryHandler):
        _check_known(tried, "handlers", [entry["target"]] if isinstance(entry.get("target"), str) else [])
    if _opens_file(maker) or maker.__module__.partition(".")[0] == "logging":
        _check_arguments(maker, arguments)


def _check_arguments(maker: type[logging.Handler], arguments: JsonObject) -> None:
    """Raise any error if a handler of Python's logging could not be made with these arguments, or write no line.

    Nothing is opened: the arguments for files and for other handlers are replaced, and what connects is not made.
    """
    if issubclass(maker, logging.FileHandler):
        os.fspath(arguments["filename"])
        _try_file(maker(**{**arguments, "filename": os.devnull, "delay": True}))
    elif issubclass(maker, MemoryHandler):
        maker(**{**arguments, "target": None}).shouldFlush(_make_record())
    elif not issubclass(maker, QueueHandler):  # of which newer releases of Python read more arguments
        inspect.signature(maker).bind(**arguments)
    stream = arguments.get("stream")
    if stream is not None and not callable(getattr(stream, "write", None)):
        raise TypeError("its stream is no open file")


def _try_file(handler: logging.FileHandler) -> None:
    """Raise any error if a handler that has opened no file could not write to it, or would not end to change it."""
    codecs.lookup_error(handler.errors or "strict")
    handler.baseFilename, handler.mode = os.devnull, handler.mode.replace("x", "w")
    with handler._open() as opened:
        opened.write("")
    if isinstance(handler, TimedRotatingFileHandler) and not handler.interval >= 1:
        raise ValueError("its file would change more often than once in a second")
    if operator.index(getattr(handler, "backupCount", 0)) > _MOST_FILES and isinstance(handler, RotatingFileHandler):
        raise ValueError(f"it keeps more than {_MOST_FILES} files")


def _check_logger(tried: DictConfigurator, entry: JsonMapping) -> None:
    """Raise any error if a logger names a level, a handler or a filter that there is not."""
    level = entry.get("level")
    logging.Logger("tried", logging.NOTSET if level is None else level)
    _check_known(tried, "handlers", entry.get("handlers") or ())
    _check_known(tried, "filters", [each for each in entry.get("filters") or () if not hasattr(each, "filter")])


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
