"""The last good policy: what it says, what its files looked like, and whether a newer file lost too much of it.

Rules
-----
1. The policy is kept as our sections of the config, as plain JSON, without what may be secret. The store keeps it, so a
   service that starts with a bad file runs with it. In place of a secret stands a mark by which a change is noticed. A
   section with such a mark is not put in force: half of it might log in without a password, or notify others.
2. Cut off: a file that is the beginning of the file in force, and ends in the middle of a line or without entries that
   are in force, is refused. A file that is being written looks like that, and so does one on a full disk.
3. Lost: a setting with entries (queues, quotas, pools) that has none any more is refused, unless the file names the
   setting in `c.SchedulerService.allow_empty`.
4. Empty: a file that sets nothing at all is refused while a policy is in force that set something (`loaded_policy`).

See docs/decisions/0075-refuse-a-file-that-lost-its-policy.md
and docs/decisions/0385-refuse-a-file-that-sets-nothing.md
and docs/decisions/0450-store-marks-in-place-of-secret-settings.md.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue

from jupyter_gq.domain.json_types import JsonMapping, JsonObject, JsonValue
from jupyter_gq.domain.plain_text import quoted

#: The name of the stored document.
LAST_GOOD = "last_good_policy"
#: Settings with entries by name that may not lose all of them by accident.
GUARDED = ("TrainingQueues.queues", "FixedQuota.users", "FixedQuota.groups", "Pools.pools")
#: Settings that may hold a password, and that come from the environment if the file cannot be used.
_LEFT_OUT = frozenset({("SchedulerService", "database_url")})
#: Settings that may hold a password, in whose place a mark is kept.
_SECRETS = frozenset(("Notifications", trait) for trait in ("webhook", "webhook_headers", "mail_password"))
#: The key of a mark, and the rounds of its hash: a guess at a short password costs time.
_MARK, _ROUNDS = "mark of a secret", 20_000
#: The value of a mark: its salt and its hash.
_SALTED_HASH = re.compile("[0-9a-f]{16}:[0-9a-f]{64}")
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
    def of(
        cls, config: Config, names: Collection[str], executed: Collection[Path], before: "LastGood | None" = None
    ) -> Self:
        """Return the policy of a config, without what may be secret, and with hashes of the lines of its files.

        `names` are our sections; `executed` are the files that made the config. A secret that is the same in `before`
        has the same mark.
        """
        known = {} if before is None else before.sections
        sections = {
            name: _without_secrets(name, config[name], known.get(name, {})) for name in sorted(names) if name in config
        }
        return cls(sections=sections, files={str(path): _line_ends(path) for path in executed})

    @classmethod
    def from_document(cls, document: JsonMapping) -> Self:
        """Return the policy that `to_document` wrote as JSON; earlier releases wrote secrets, which are left out."""
        files = {path: [(int(end), str(mark)) for end, mark in ends] for path, ends in document["files"].items()}
        sections = {name: _without_secrets(name, traits, traits) for name, traits in document["sections"].items()}
        return cls(sections=sections, files=files)

    def to_document(self) -> JsonObject:
        """Return the policy as JSON, for the store."""
        files = {path: [list(end) for end in ends] for path, ends in self.files.items()}
        return {"sections": self.sections, "files": files}

    def to_config(self) -> Config:
        """Return the policy as a config that a file with the same values would make, without `secret_sections`."""
        return Config(
            {
                section: {trait: _with_steps(value) for trait, value in traits.items()}
                for section, traits in self.sections.items()
                if section not in self.secret_sections
            }
        )

    @property
    def secret_sections(self) -> tuple[str, ...]:
        """The sections that cannot be put in force from here, because secrets of them are not kept."""
        return tuple(name for name, traits in self.sections.items() if any(map(_is_mark, traits.values())))

    def describe_missing(self) -> tuple[str, ...]:
        """Return a sentence for each of `secret_sections`: that the section is not in force, why, and what to do."""
        return tuple(
            f"c.{section} is not in force: the service started with the last good settings, and secrets are not stored "
            "with them. Mend the file and start the service again."
            for section in self.secret_sections
        )

    def entries(self, setting: str) -> frozenset[str]:
        """Return the names of the entries of a setting such as "TrainingQueues.queues"; none if it is not set."""
        section, trait = setting.split(".")
        found = self.sections.get(section, {}).get(trait)
        return frozenset(found) - {_STEPS} if isinstance(found, dict) else frozenset()

    def allows_empty(self, setting: str) -> bool:
        """Return whether a list in `c.SchedulerService.allow_empty` names a setting; False if that is no list."""
        allowed = self.sections.get("SchedulerService", {}).get("allow_empty")
        return isinstance(allowed, list) and setting in allowed


def explain_loss(before: LastGood, after: LastGood) -> str | None:
    """Return a sentence that says what a newer policy has lost and how to confirm that; None if nothing is lost.

    A file of `before` that is cut off now counts as a loss; this function reads those files again. A setting of
    `GUARDED` that has lost all of its entries counts too, unless `after` has it in `allow_empty`. A setting that keeps
    some of its entries has lost nothing.
    """
    lost = {setting: before.entries(setting) - after.entries(setting) for setting in GUARDED}
    for path, ends in before.files.items():
        found = _describe_cut(Path(path), ends, bool(any(lost.values())))
        if found:
            return found
    for setting, names in lost.items():
        if names and not after.entries(setting) and not after.allows_empty(setting):
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


def _without_secrets(section: str, traits: Mapping[str, object], before: JsonMapping) -> JsonObject:
    """Return the values of a section as JSON, with marks in place of secrets; a mark in `before` stays if it fits."""
    return {
        trait: _mark(to_plain(value), before.get(trait)) if (section, trait) in _SECRETS else to_plain(value)
        for trait, value in traits.items()
        if (section, trait) not in _LEFT_OUT
    }


def _mark(value: JsonValue, before: JsonValue) -> JsonValue:
    """Return the mark of a secret: `before` if that is a mark of the same secret, else a new one.

    A value that is empty or that is a mark already is returned as it is.
    """
    if not value or _is_mark(value):
        return value
    text = json.dumps(value, sort_keys=True).encode()
    if isinstance(before, dict) and _is_mark(before):
        salt, _, digest = before[_MARK].partition(":")
        if hmac.compare_digest(digest, _digest(text, salt)):
            return before
    salt = secrets.token_hex(8)
    return {_MARK: f"{salt}:{_digest(text, salt)}"}


def _digest(text: bytes, salt: str) -> str:
    return hashlib.pbkdf2_hmac("sha256", text, salt.encode(), _ROUNDS).hex()


def _is_mark(value: JsonValue) -> bool:
    if not isinstance(value, dict) or set(value) != {_MARK}:
        return False
    text = value[_MARK]
    return isinstance(text, str) and _SALTED_HASH.fullmatch(text) is not None


def to_plain(value: object) -> JsonValue:
    """Return a value of a config as JSON; a type that JSON lacks becomes text, which our traits also accept."""
    if isinstance(value, LazyConfigValue):
        steps = value.to_dict()
        return to_plain(steps["update"]) if "update" in steps else {_STEPS: to_plain(steps)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted((to_plain(inner) for inner in value), key=str)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the code of an administrator's class may raise anything; the trait refuses it
        return quoted(value)


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
