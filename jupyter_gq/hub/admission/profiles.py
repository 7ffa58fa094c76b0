"""The share of a server where an administrator offers profiles: one pure function, for every step that asks.

Rules
-----
1. A profile, or a choice of one of its options, names its share in the key `gpus`. One that names none leaves it to
   the user. A choice wins over its profile.
2. Only a profile that was asked for by name counts. KubeSpawner takes the default profile for whoever names none;
   nobody gets a GPU that way.
3. A user may repeat the share of a profile, not change it: the profile is what the administrator offers.
4. A form sends an amount always. An empty one means "as the profile says"; where the profile says nothing, that is
   refused: nobody who left the share open gets a server without one in silence.
5. Whatever KubeSpawner would stumble over in the middle of a start (no such profile, no such choice, a text where a
   name belongs) is told here, before anything is asked for.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_gq.domain.amount import parse_request
from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonMapping

from .request import GPUS, BadOptions, ShareRequest, read_request, unwrap

PROFILE = "profile"
#: The card of the options page that leaves the share to the profile.
AS_THE_PROFILE_SAYS = "As the profile says"
_UNLISTED = "--unlisted-choice"

Profile = JsonMapping


def request_with_profiles(
    user_options: Any, profiles: Sequence[Profile], *, also_known: Collection[str] | None = ()
) -> ShareRequest:
    """What the options ask for. `profiles` have slugs and default choices; see `read_request` for `also_known`.

    Raises `BadOptions` for what means nothing, `InvalidAmount` for an amount of GPUs that is none.
    """
    options = unwrap(user_options)
    chosen = chosen_profile(options, profiles)
    known = None if also_known is None else {*also_known, PROFILE, *(_keys(chosen) if chosen else ())}
    left_open = GPUS in options and options[GPUS] in ("", [""])
    asked = read_request({**options, GPUS: "0"} if left_open else options, also_known=known)
    named = _share_of(chosen, options) if chosen else None
    if chosen is None or named is None:
        if left_open:
            who = (
                f"The profile {chosen['display_name']!r} leaves the share to you" if chosen else "No profile is chosen"
            )
            raise BadOptions(f'{who}: choose an amount of GPUs, or CPU only (by the API: {GPUS} "0").')
        return asked
    offered = ShareRequest(milli=parse_request(named))
    if GPUS in options and not left_open and asked != offered:
        raise BadOptions(
            f"The profile {chosen['display_name']!r} comes with {_amount(offered)}, and you asked for "
            f'{_amount(asked)}. Choose "{AS_THE_PROFILE_SAYS}" (by the API: leave out {GPUS}), or another profile.'
        )
    return offered


def chosen_profile(options: JsonMapping, profiles: Sequence[Profile]) -> Profile | None:
    """The profile that the options name; None when they name none. Raises `BadOptions` for an unknown one."""
    slug = options.get(PROFILE)
    if slug is None or slug == "":
        return None
    if not isinstance(slug, str):
        raise BadOptions(f"The option {PROFILE} must be the name of a profile, as text.")
    if not profiles:
        raise BadOptions(f"There are no profiles here; leave out {PROFILE}.")
    found = next((profile for profile in profiles if profile["slug"] == slug), None)
    if found is None:
        known = ", ".join(sorted(str(profile["slug"]) for profile in profiles))
        raise BadOptions(f"There is no profile {slug!r}; known here: {known}.")
    for name, option in _options_of(found).items():
        _check_choice(name, option, options)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedShares:
    """The shares that one profile names, as text: what the options page needs to show the one in force."""

    #: The share of the profile itself; None when it leaves that to its options, or to the user.
    gpus: str | None
    #: option -> choice -> share, in the order in which they count; choices that name none are not among them.
    options: Mapping[str, Mapping[str, str]]

    @property
    def amounts(self) -> list[str]:
        """Every share that this profile may come with."""
        own = [] if self.gpus is None else [self.gpus]
        return [*own, *(gpus for choices in self.options.values() for gpus in choices.values())]


def named_shares(profiles: Sequence[Profile]) -> dict[str, NamedShares]:
    """What each profile names, by slug."""
    return {
        str(profile["slug"]): NamedShares(
            gpus=None if profile.get(GPUS) is None else _text(profile[GPUS]),
            options={
                name: {key: _text(choice[GPUS]) for key, choice in choices.items() if choice.get(GPUS) is not None}
                for name, option in _options_of(profile).items()
                if (choices := option.get("choices") or {})
            },
        )
        for profile in profiles
    }


def _share_of(profile: Profile, options: JsonMapping) -> Any:
    named = profile.get(GPUS)
    for name, option in _options_of(profile).items():
        if options.get(name + _UNLISTED):
            continue
        choices: Mapping[str, Profile] = option.get("choices") or {}
        default = next((key for key, choice in choices.items() if choice.get("default")), None)
        choice = choices.get(options.get(name) or default or "", {})
        named = choice.get(GPUS, named)
    return named


def _check_choice(name: str, option: Profile, options: JsonMapping) -> None:
    unlisted, choice = options.get(name + _UNLISTED), options.get(name)
    for value in (unlisted, choice):
        if value is not None and not isinstance(value, str):
            raise BadOptions(f"The option {name} must be text.")
    rule = option.get("unlisted_choice") or {}
    choices: JsonMapping = option.get("choices") or {}
    if unlisted:
        if not rule.get("enabled"):
            raise BadOptions(f"The option {name} takes only what is offered: {', '.join(choices)}.")
        pattern = rule.get("validation_regex")
        if pattern and not re.match(pattern, unlisted):
            told = rule.get("validation_message") or f"it must match {pattern}"
            raise BadOptions(f"The option {name} cannot be {unlisted!r}: {told}")
    elif choice and choice not in choices:
        raise BadOptions(f"The option {name} cannot be {choice!r}; offered here: {', '.join(choices)}.")
    elif not choice and not choices:
        raise BadOptions(f"The option {name} has no default: say what you want.")


def _keys(profile: Profile) -> list[str]:
    return [key for name in _options_of(profile) for key in (name, name + _UNLISTED)]


def _options_of(profile: Profile) -> Mapping[str, Profile]:
    found: Mapping[str, Profile] = profile.get("profile_options") or {}
    return found


def _text(gpus: Any) -> str:
    try:
        return ShareRequest(milli=parse_request(gpus)).gpus
    except UserError:
        return str(gpus)  # the page is shown all the same; a start with it is refused with a sentence


def _amount(request: ShareRequest) -> str:
    return f"{request.gpus} GPU" if request.wants_gpu else "no GPU"
