"""`jupyter-gq completion`: print the script that completes commands, options and ids of jobs in a shell.

The script is made from the parser of the whole command, so it knows what this release knows.
"""

import argparse
from collections.abc import Iterator

from .explain import JOB_METAVAR

_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"
_HEAD = """\
_jupyter_gq() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=
  COMPREPLY=()
  case "$COMP_CWORD:${COMP_WORDS[1]}:$before" in
"""
_TAIL = """\
  esac
  if [[ $words == JOBS && $current != -* ]]; then
    words="last $(jupyter-gq jobs --all --no-wait 2>/dev/null | awk 'NR > 1 {print $1}')"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _jupyter_gq jupyter-gq
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `jupyter-gq completion`."""
    parser.add_argument("shell", choices=["bash", "zsh"], help="shell that will read the script")
    parser.epilog = "Put `source <(jupyter-gq completion bash)` into ~/.bashrc, or the same with zsh into ~/.zshrc."


def run(arguments: argparse.Namespace) -> int:
    """Print the script and return 0; `arguments.parser` is the parser of the whole command."""
    print(make_script(arguments.parser, arguments.shell), end="")
    return 0


def make_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script for a shell, "bash" or "zsh"; `parser` has the subcommands."""
    (subcommands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    lines = [f'    1:*) words="{" ".join(subcommands.choices)}" ;;\n']
    for name, command in subcommands.choices.items():
        lines += _make_cases(name, command)
    return (_ZSH if shell == "zsh" else "") + _HEAD + "".join(lines) + _TAIL


def _make_cases(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the cases of one subcommand: first the choices of its options, then the options or what they follow."""
    actions = [action for action in command._actions if action.dest != "help"]
    for action in actions:
        if action.option_strings and action.nargs != 0:
            words = " ".join(map(str, action.choices or ()))
            yield "".join(f'    *:{name}:{option}) words="{words}" ;;\n' for option in action.option_strings)
    options = " ".join(option for action in actions for option in action.option_strings)
    positional = [action for action in actions if not action.option_strings]
    words = " ".join(str(choice) for action in positional for choice in action.choices or ())
    if any(action.metavar == JOB_METAVAR for action in positional):
        yield f'    *:{name}:*) if [[ $current == -* ]]; then words="{options}"; else words=JOBS; fi ;;\n'
    else:
        yield f'    *:{name}:*) if [[ $current == -* ]]; then words="{options}"; else words="{words}"; fi ;;\n'
