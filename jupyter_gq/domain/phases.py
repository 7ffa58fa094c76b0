"""The phases of jobs: the last ones, and all in sentences.

Kernels import this module too, so it needs the standard library only.
"""

from __future__ import annotations

import re

#: Phases of a job that has ended.
ENDED = frozenset({"done", "failed", "cancelled"})
#: What follows the word of a state at the beginning of a sentence that can do without it.
_AFTER_WORD = re.compile(r": | (?=(?:after|before|by|on)\b)|\.(?: |$)")
#: Words that are no name, and begin a sentence with a capital letter.
_NO_NAME = re.compile(r"\A(?:after|before|by|it|its|on|only|part|the|your)(?=[ ,])")
_CLAUSES = {"failed": "has failed", "cancelled": "was cancelled", "cancelling": "is being cancelled"}


def describe_phase(phase: str) -> str:
    """Return what a sentence says of a job in this phase, such as "has failed" or "is running"."""
    return _CLAUSES.get(phase, f"is {phase}")


def omit_state(sentence: str, state: str) -> str:
    """Return a sentence about a job without the word of its state: "It needs 2 GPUs." for "Waiting: it needs 2 GPUs.".

    A sentence that begins in another way is returned as it is, and "Waiting." becomes "". The lab does the same beside
    the word of a state (`labextension/src/sentences.ts`). The result may be half a sentence: in a text, use
    `tell_state`.
    """
    word = state.capitalize()
    found = _AFTER_WORD.match(sentence, len(word)) if sentence.startswith(word) else None
    rest = sentence if found is None else sentence[found.end() :]
    return _NO_NAME.sub(lambda first: first[0].capitalize(), rest)


def tell_state(sentence: str, state: str, clause: str = "") -> str:
    """Return the sentence of a job in a form that follows the job's name, such as "has failed after 12 min.".

    `state` is the job's phase, or another word with which `sentence` may begin. `clause` replaces that word; "" = the
    clause of `describe_phase`.
    """
    clause, word, rest = clause or describe_phase(state), state.capitalize(), omit_state(sentence, state)
    if sentence.startswith(f"{word} ") and rest != sentence:
        return clause + sentence[len(word) :]
    return f"{clause}. {rest}".rstrip()
