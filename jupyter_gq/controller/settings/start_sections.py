"""Sections of the Hub's file that are no policy: the service reads them once, when it starts.

A running service still looks at them: what its next start would refuse is refused while there are people who look.
See docs/decisions/0485-check-at-once-what-the-next-start-reads.md and, for the log,
docs/decisions/0463-take-no-pipe-for-the-file-of-the-log.md.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from traitlets.config import Config


def _refuse_nothing(_config: Config) -> None:
    """Accept all values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartSections:
    """The sections that parts of the service read at its start, and how these parts judge them."""

    #: The names of the traits, by section; other names in these sections are refused.
    names: Mapping[str, Collection[str]] = field(default_factory=dict)
    #: Raises `TraitError` or `AdminError` for a config with which the service would not start.
    check: Callable[[Config], None] = _refuse_nothing


#: Of a program that reads the policy only.
NO_SECTIONS = StartSections()
