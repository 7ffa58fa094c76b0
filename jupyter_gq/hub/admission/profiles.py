"""The share of a server if an administrator offers profiles: one pure function for all steps that need it.

Rules
-----
- Named share: a profile, or a choice of one of its options, names its share in the key `gpus`. A profile without the
  key leaves the share to the user. A choice overrides its profile.
- No GPU by accident: only a profile that was requested by name counts. KubeSpawner uses the default profile for users
  who name none, and nobody gets a GPU that way.
- Fixed offer: a user may repeat the share of a profile and not change it, because the administrator offers it so.
- Open share: a form always sends an amount. An empty amount means "as the profile says"; if the profile names none,
  the request is refused, so that nobody silently gets a server without a share.
- Early errors: mistakes at which KubeSpawner would fail in the middle of a start (an unknown profile, an unknown
  choice, a value of a wrong type) are reported here, before anything is requested.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from jupyter_gq.domain.amount import parse_request
from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonMapping

from .request import GPUS, BadOptions, ShareRequest, read_request, unwrap_options

PROFILE = "profile"
#: The card of the options page that leaves the share to the profile.
AS_THE_PROFILE_SAYS = "As the profile says"
_UNLISTED = "--unlisted-choice"

Profile = JsonMapping


def read_request_with_profiles(
    user_options: object, profiles: Sequence[Profile], *, also_known: Collection[str] | None = ()
) -> ShareRequest:
    """Return the share that the user's options and the profile chosen in them request.

    `profiles` have slugs and default choices; `also_known` is as in `read_request`. Raises `BadOptions` for options
    without a meaning or against the chosen profile, and `InvalidAmount` for a malformed amount of GPUs.
    """
    options = unwrap_options(user_options)
    chosen = find_chosen_profile(options, profiles)
    known = None if also_known is None else {*also_known, PROFILE, *(_list_option_keys(chosen) if chosen else ())}
    left_open = GPUS in options and options[GPUS] in ("", [""])
    asked = read_request({**options, GPUS: "0"} if left_open else options, also_known=known)
    named = _find_share(chosen, options) if chosen else None
    if chosen is None or named is None:
        if left_open:
            reason = (
                f"The profile {chosen['display_name']!r} leaves the share to you" if chosen else "No profile is chosen"
            )
            raise BadOptions(f'{reason}: choose an amount of GPUs, or CPU only (in the API: {GPUS} "0").')
        return asked
    offered = ShareRequest(milli=parse_request(named))
    if GPUS in options and not left_open and asked != offered:
        raise BadOptions(
            f"The profile {chosen['display_name']!r} comes with {_describe_request(offered)}, and you asked for "
            f'{_describe_request(asked)}. Choose "{AS_THE_PROFILE_SAYS}" (in the API: leave out {GPUS}), or another '
            "profile."
        )
    return offered


def find_chosen_profile(options: JsonMapping, profiles: Sequence[Profile]) -> Profile | None:
    """Return the profile that the options name; None if they name none.

    Raises `BadOptions` for an unknown profile, and for a choice that the profile does not offer.
    """
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
    for name, option in _get_options(found).items():
        _check_choice(name, option, options)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedShares:
    """The shares that one profile names, as text. The options page shows the share in force from them."""

    #: Share of the profile itself; None if the profile leaves it to its options or to the user.
    gpus: str | None
    #: option -> choice -> share, in order of precedence, the strongest last; choices without a share are left out.
    options: Mapping[str, Mapping[str, str]]

    @property
    def amounts(self) -> list[str]:
        """The shares that this profile and its options name, as text."""
        own = [] if self.gpus is None else [self.gpus]
        return [*own, *(gpus for choices in self.options.values() for gpus in choices.values())]


def find_named_shares(profiles: Sequence[Profile]) -> dict[str, NamedShares]:
    """Return the shares that each profile names, by slug."""
    return {
        str(profile["slug"]): NamedShares(
            gpus=None if profile.get(GPUS) is None else _format_share(profile[GPUS]),
            options={
                name: {
                    key: _format_share(choice[GPUS]) for key, choice in choices.items() if choice.get(GPUS) is not None
                }
                for name, option in _get_options(profile).items()
                if (choices := option.get("choices") or {})
            },
        )
        for profile in profiles
    }


def _find_share(profile: Profile, options: JsonMapping) -> object:
    """Return the share that the profile and the chosen options name, unparsed; None if they name none.

    The choice of a later option overrides the profile and earlier options. A value that is not among the choices names
    no share.
    """
    named = profile.get(GPUS)
    for name, option in _get_options(profile).items():
        if options.get(name + _UNLISTED):
            continue
        choices: Mapping[str, Profile] = option.get("choices") or {}
        default = next((key for key, choice in choices.items() if choice.get("default")), None)
        choice = choices.get(options.get(name) or default or "", {})
        named = choice.get(GPUS, named)
    return named


def _check_choice(name: str, option: Profile, options: JsonMapping) -> None:
    """Raise `BadOptions` if the value of a profile's option is not offered, has a wrong type, or is missing."""
    unlisted, choice = options.get(name + _UNLISTED), options.get(name)
    for value in (unlisted, choice):
        if value is not None and not isinstance(value, str):
            raise BadOptions(f"The option {name} must be text.")
    rule = option.get("unlisted_choice") or {}
    choices: JsonMapping = option.get("choices") or {}
    if unlisted:
        if not rule.get("enabled"):
            raise BadOptions(f"The option {name} accepts only offered choices: {', '.join(choices)}.")
        pattern = rule.get("validation_regex")
        if pattern and not re.match(pattern, unlisted):
            reason = rule.get("validation_message") or f"it must match {pattern}"
            raise BadOptions(f"The option {name} cannot be {unlisted!r}: {reason}")
    elif choice and choice not in choices:
        raise BadOptions(f"The option {name} cannot be {choice!r}; offered here: {', '.join(choices)}.")
    elif not choice and not choices:
        raise BadOptions(f"The option {name} has no default: choose a value.")


def _list_option_keys(profile: Profile) -> list[str]:
    """Return the keys of `user_options` that the options of a profile use."""
    return [key for name in _get_options(profile) for key in (name, name + _UNLISTED)]


def _get_options(profile: Profile) -> Mapping[str, Profile]:
    found: Mapping[str, Profile] = profile.get("profile_options") or {}
    return found


def _format_share(gpus: object) -> str:
    """Return an administrator's amount as normalized text; an invalid amount is returned as it is."""
    try:
        return ShareRequest(milli=parse_request(gpus)).gpus
    except UserError:
        return str(gpus)  # the page is still shown; a start with this value is refused with a sentence


def _describe_request(request: ShareRequest) -> str:
    return f"{request.gpus} GPU" if request.wants_gpu else "no GPU"
