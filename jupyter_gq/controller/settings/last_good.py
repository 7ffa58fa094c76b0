"""The last good policy: what it says, what its files looked like, and whether a newer file lost too much of it.

Rules
-----
1. The policy is kept as our sections of the config, as plain JSON, without what may be secret. The store keeps it, so a
   service that starts with a bad file runs with it.
2. Cut off: a file that is the beginning of the file in force, and ends in the middle of a line or without entries that
   are in force, is refused. A file that is being written looks like that, and so does one on a full disk.
3. Lost: a setting with entries (queues, quotas, pools) that has none any more is refused, unless the file names the
   setting in `c.SchedulerService.allow_empty`.

See docs/decisions/0075-refuse-a-file-that-lost-its-policy.md.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue

from jupyter_gq.domain.json_types import JsonMapping, JsonObject, JsonValue

#: The name of the stored document.
LAST_GOOD = "last_good_policy"
#: Settings with entries by name that may not lose all of them by accident.
GUARDED = ("TrainingQueues.queues", "FixedQuota.users", "FixedQuota.groups", "Pools.pools")
#: Settings that may hold a password.
_SECRETS = frozenset({("SchedulerService", "database_url")})
#: Marks the steps by which a file changes a list, such as `c.LocalBackend.env_keep.append("X")`.
_STEPS = "steps of a list"

#: The end of each line of a file in bytes, with a hash of everything up to there.
_LineEnds = Sequence[tuple[int, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class LastGood:
    """A policy that was or can be in force, in a form that can be stored."""

    #: The values of our traits by section, as the file wrote them.
    sections: JsonObject
    #: The lines of each file, by path.
    files: Mapping[str, _LineEnds]

    @classmethod
    def of(cls, config: Config, names: Collection[str], executed: Collection[Path]) -> Self:
        """Return the policy of a config, without what may be secret, and with hashes of the lines of its files.

        `names` are our sections; `executed` are the files that made the config.
        """
        sections = {
            name: {trait: _plain(value) for trait, value in config[name].items() if (name, trait) not in _SECRETS}
            for name in sorted(names)
            if name in config
        }
        return cls(sections=sections, files={str(path): _line_ends(path) for path in executed})

    @classmethod
    def from_document(cls, document: JsonMapping) -> Self:
        """Return the policy that `to_document` wrote as JSON."""
        files = {path: [(int(end), str(mark)) for end, mark in ends] for path, ends in document["files"].items()}
        return cls(sections=dict(document["sections"]), files=files)

    def to_document(self) -> JsonObject:
        """Return the policy as JSON, for the store."""
        files = {path: [list(end) for end in ends] for path, ends in self.files.items()}
        return {"sections": self.sections, "files": files}

    def to_config(self) -> Config:
        """Return the policy as a config that a file with the same values would make."""
        return Config(
            {
                section: {trait: _with_steps(value) for trait, value in traits.items()}
                for section, traits in self.sections.items()
            }
        )

    def entries(self, setting: str) -> frozenset[str]:
        """Return the names of the entries of a setting such as "TrainingQueues.queues"; none if it is not set."""
        section, trait = setting.split(".")
        found = self.sections.get(section, {}).get(trait)
        return frozenset(found) - {_STEPS} if isinstance(found, dict) else frozenset()


def explain_loss(before: LastGood, after: LastGood) -> str | None:
    """Return a sentence that says what a newer policy has lost and how to confirm that; None if nothing is lost.

    A file that is cut off counts as a loss. So does a guarded setting that has lost all of its entries and is not in
    `allow_empty`; the loss of some is none.
    """
    lost = {setting: before.entries(setting) - after.entries(setting) for setting in GUARDED}
    for path, ends in before.files.items():
        found = _describe_cut(Path(path), ends, bool(any(lost.values())))
        if found:
            return found
    allowed = after.sections.get("SchedulerService", {}).get("allow_empty") or ()
    for setting, names in lost.items():
        if names and not after.entries(setting) and setting not in allowed:
            listed = ", ".join(sorted(names))
            return (
                f"c.{setting} has no entries any more, and these are in force: {listed}. If the file was cut off, "
                f"write it again. If you want to remove them all, add this line: "
                f"c.SchedulerService.allow_empty = [{setting!r}]"
            )
    return None


def _describe_cut(path: Path, before: _LineEnds, has_lost: bool) -> str | None:
    """Return a sentence if the file now holds only the beginning of what it was; None if it does not.

    A file that ends after a whole line counts only if it is empty or `has_lost` says that entries are missing.
    """
    content = _content(path)
    total = before[-1][0] if before else 0
    if content is None or len(content) >= total:
        return None
    whole = [(end, mark) for end, mark in before if end <= len(content)]
    rest = content[whole[-1][0] if whole else 0 :]
    if whole and _short(hashlib.sha256(content[: whole[-1][0]])) != whole[-1][1]:
        return None
    if b"\n" in rest or not (rest or has_lost or not content):
        return None
    return (
        f"{path} is cut off: it has the first {len(content)} of {total} bytes of the file in force. Write it again. If "
        "you removed the end on purpose, add a new comment as the last line."
    )


def _line_ends(path: Path) -> _LineEnds:
    """Return the end of each line of a file in bytes, with a hash of everything up to there; [] if it is unreadable."""
    ends, position, digest = [], 0, hashlib.sha256()
    for line in (_content(path) or b"").splitlines(keepends=True):
        position += len(line)
        digest.update(line)
        ends.append((position, _short(digest)))
    return ends


def _content(path: Path) -> bytes | None:
    """Return the bytes of a regular file; None if it cannot be read. Opening a pipe may wait for ever."""
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError:
        return None


def _short(digest: "hashlib._Hash") -> str:
    """Return the first 16 digits of a hash."""
    return digest.hexdigest()[:16]


def _plain(value: object) -> JsonValue:
    """Return a value of a config as JSON; a type that JSON lacks becomes text, which our traits also accept."""
    if isinstance(value, LazyConfigValue):
        steps = value.to_dict()
        return _plain(steps["update"]) if "update" in steps else {_STEPS: _plain(steps)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(inner) for inner in value), key=str)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _with_steps(value: JsonValue) -> object:
    """Return a stored value as a config file would set it.

    Recorded changes of a list, such as `c.X.y.append(...)`, become a `LazyConfigValue` that makes these changes.
    """
    if not isinstance(value, dict) or _STEPS not in value:
        return value
    steps, lazy = value[_STEPS], LazyConfigValue()
    lazy.extend(steps.get("extend", []))
    lazy.prepend(steps.get("prepend", []))
    for index, item in steps.get("inserts", []):
        lazy.insert(index, item)
    return lazy
