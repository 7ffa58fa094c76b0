"""The effects of a shell command that matter if the command runs again in a job.

Commands that only read, such as `ls` or `nvidia-smi`, have none, unless their output is redirected to a file.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

Kind = Literal["installs_packages", "writes_files", "runs_commands"]


class CommandEffect(NamedTuple):
    """An effect of a command line."""

    kind: Kind
    #: The file that is written, or the program that acts; "" for an installation.
    what: str
    #: The words of a command that acts, its program first, and the folder to which a command before has changed.
    words: Sequence[str] = ()
    folder: str = ""
    #: Whether the command is given its input, by `<` or from a command before.
    has_input: bool = False


_INSTALL = re.compile(
    r"(?:^|\s)(?:\S*/)?(?:pip[\d.]*|pipx|uv|conda|mamba|micromamba|pixi|apt|apt-get|apk|yum|dnf|brew|poetry|pdm|npm)\s+"
    r"(?:(?:pip|env|tool)\s+)?(?:-\S+\s+)*(?:install|uninstall|add|sync|remove|update|upgrade|create)\b"
    r"|(?:^|\s)(?:\S*/)?(?:pip-sync|easy_install)\b"
)
#: Programs that only read.
_READERS = frozenset(
    {
        *("ls", "cat", "head", "tail", "pwd", "echo", "printf", "which", "type", "wc", "du", "df", "ps", "free"),
        *("uname", "date", "whoami", "id", "hostname", "env", "printenv", "grep", "egrep", "rg", "tree", "file"),
        *("stat", "nvidia-smi", "nvcc", "lscpu", "lsblk", "lsof", "uptime", "sleep", "true", "test", "sort", "uniq"),
        *("cut", "tr", "awk", "diff", "md5sum", "sha256sum", "jq", "less", "more", "cd", "export", "set", "top"),
        *("history", "man", "exit", "[", "for", "done", "fi", "case", "esac"),
    }
)
#: Programs that only read with these first arguments.
_READING_ARGUMENTS = {
    "git": frozenset({"status", "log", "diff", "show", "branch", "rev-parse", "remote", "ls-files", "describe"}),
    **dict.fromkeys(("pip", "pip3", "conda", "mamba"), frozenset({"list", "show", "freeze", "check", "info", "env"})),
    "uv": frozenset({"--version", "version", "tree"}),
    **dict.fromkeys(("python", "python3", "node", "gcc", "make", "jupyter"), frozenset({"--version", "-V"})),
}
_REDIRECTION = re.compile(r"(?<![0-9&])>{1,2}\s*(?!&|/dev/null)([^\s;|&]+)")
_FIND_ACTS = re.compile(r"\s-(?:delete|exec|execdir|ok)\b")
#: Words before the program of a command: variables that are set for it, programs that run it, words of the shell.
_BEFORE_PROGRAM = re.compile(r"\w+=\S*|nohup|time|env|exec|sudo|do|then|else|elif|if|while|until|!")
#: Programs of these that may have options, each with its options that are followed by a value.
_RUNNERS = {
    "sudo": frozenset({"-C", "-D", "-R", "-T", "-U", "-g", "-h", "-p", "-u", "--group", "--user"}),
    "env": frozenset({"-C", "-u", "--chdir", "--unset"}),
    "time": frozenset({"-f", "-o"}),
    "exec": frozenset({"-a"}),
    "nohup": frozenset[str](),
}
#: The beginning of a branch of `case`, with the word in front of the first one. Each part of it is bounded, so that a
#: long line costs no more than its length.
_BRANCH = re.compile(
    r"(?:(^|[;&|\n(]|\b(?:do|then|else)\s)[ \t]{0,99}case\s[^\n;]{0,200}?\sin\s|;;)\s{0,99}(?:\(?[^()\n;&]{0,200}\))?"
)
_BETWEEN_COMMANDS = re.compile(r"(&&|\|\||\|&?\s*|[;\n]|(?<!>)&(?!>))")
_GIVEN_INPUT = re.compile(r"<(?!\()")


def find_command_effects(command: str) -> Iterator[CommandEffect]:
    """Yield the effects of a line or script of shell commands that may not be wanted a second time, in their order.

    Effects are files that are written, packages that are installed, and programs that act.
    """
    folder = ""
    for part, has_input in _split(command):
        words = _drop_runners(part.split())
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "cd":
            folder = words[1].strip("'\"") if len(words) > 1 else ""
        if _INSTALL.search(part):
            yield CommandEffect("installs_packages", "")
            continue
        redirected = _REDIRECTION.search(part)
        if redirected:
            yield CommandEffect("writes_files", redirected[1].strip("'\""))
        elif words[0] == "tee":
            written = (word.strip("'\"") for word in words[1:] if not word.startswith("-"))
            yield from (CommandEffect("writes_files", word) for word in written)
        elif not _only_reads(words, part):
            yield CommandEffect("runs_commands", words[0], words, folder, has_input)


def _split(command: str) -> Iterator[tuple[str, bool]]:
    """Yield each simple command of a command line or script, and whether it is given its input."""
    text = _BRANCH.sub(lambda found: f"{found[1] or ''};", command.replace("\\\n", " "))
    before = ""
    for place, part in enumerate(_BETWEEN_COMMANDS.split(text)):
        if place % 2:
            before = part.strip()
        else:
            yield part, before in {"|", "|&"} or _GIVEN_INPUT.search(part) is not None


def _drop_runners(words: list[str]) -> list[str]:
    """Return a simple command from its program on; a program that only has options stands for what it runs."""
    runner, place, has_options = "", 0, False
    while place < len(words):
        word = words[place]
        if runner and word.startswith("-"):
            has_options = True
            place += word in _RUNNERS[runner]
        elif not _BEFORE_PROGRAM.fullmatch(word):
            break
        elif "=" not in word:
            runner = word if word in _RUNNERS else ""
        place += 1
    return words[place:] or ([runner] if has_options and runner else [])


def _only_reads(words: list[str], part: str) -> bool:
    """Return whether a simple command only reads, by its program and its first argument."""
    program = words[0].rsplit("/", 1)[-1]
    if program == "find":
        return not _FIND_ACTS.search(part)
    argument = words[1] if len(words) > 1 else ""
    return program in _READERS or argument in _READING_ARGUMENTS.get(program, ())
