"""KubeSpawner's profiles together with shares: the request, the options page, and undoing a profile's changes.

Rules
-----
- Named share: `gpus` in a profile, or in a choice of its options, is its share; see `admission.profiles`.
- Undone changes: changes of a profile to the spawner are undone before the next start. KubeSpawner merges a profile
  into the present settings, and a GPU that was requested once would stay.
- Errors are refusals: an error of the list of profiles, or of KubeSpawner while it applies a profile, becomes a refusal
  with a sentence.
"""

import copy
from collections.abc import Awaitable, Callable

from tornado.web import HTTPError
from traitlets import default

from jupyter_gq.domain.errors import AdminError, UserError
from jupyter_gq.domain.json_types import JsonObject, JsonValue
from jupyter_gq.hub import options_form
from jupyter_gq.hub.admission.profiles import PROFILE, Profile, find_named_shares, read_request_with_profiles
from jupyter_gq.hub.admission.refusal import make_refusal
from jupyter_gq.hub.admission.request import ShareRequest
from jupyter_gq.hub.base import SpawnerMixin
from jupyter_gq.hub.hub_parts import Form, ProfileSpawner
from jupyter_gq.hub.mixin import await_if_needed

_FIELD = "profile-option-"


class BrokenProfiles(AdminError):
    """A list of profiles that the administrator's code cannot make."""

    code = "broken_profiles"


class ProfileShares(SpawnerMixin):  # type: ignore[misc]  # jupyterhub has no types
    """The mixin for profiles with shares; it stands before `GPUShareMixin`, over KubeSpawner."""

    user_options: JsonValue

    def __init__(self, *args: object, **kwargs: object) -> None:
        #: Values of settings before a profile changed them, by name.
        self._before_profile: JsonObject = {}
        super().__init__(*args, **kwargs)

    @default("options_form")
    def _page_with_profiles(self) -> Callable[[ProfileSpawner], Awaitable[str]]:
        return render_page

    @default("options_from_form")
    def _reader_with_profiles(self) -> Callable[[Form], JsonObject]:
        return self._read_form

    async def read_request(self) -> ShareRequest:
        """Return the share that the user's options and the chosen profile request.

        Raises `BadOptions`, `InvalidAmount`, or `BrokenProfiles` if the list of profiles cannot be computed.
        """
        return read_request_with_profiles(self.user_options, await self.profiles(), also_known=self.other_options())

    async def profiles(self) -> list[Profile]:
        """Return the administrator's profiles with slugs and defaults; raise `BrokenProfiles` if that fails."""
        try:
            profiles = self.profile_list
            if callable(profiles):
                profiles = await await_if_needed(profiles(self))
            found: list[Profile] = self._get_initialized_profile_list(self._sorted_dict_values(profiles))
        except Exception as error:
            self.log.exception("The list of profiles cannot be computed")
            raise BrokenProfiles("The list of profiles could not be computed. Ask your administrator.") from error
        return found

    async def load_user_options(self) -> None:
        """Undo an earlier profile and apply the chosen one; raise a refusal (HTTP 400) if it cannot be applied.

        KubeSpawner calls this in a start, and again if another place is tried.
        """
        self._undo_profile()
        try:
            await super().load_user_options()
        except HTTPError:
            raise
        except Exception as error:
            self.log.exception("The profile of %s cannot be applied", self._log_name)
            name = self.user_options.get(PROFILE) or "chosen by default"
            sentence = f"The profile {name} cannot be used. Choose another one, or ask your administrator."
            raise make_refusal(self, sentence, "gpu_bad_request", 400) from error

    def clear_state(self) -> None:
        """Undo the profile's changes; the Hub calls this before a start and after an end."""
        self._undo_profile()
        super().clear_state()

    def _apply_overrides(self, spawner_override: JsonObject) -> None:
        """Apply a profile's changes to the spawner, and remember the values before."""
        for name in spawner_override:
            if name not in self._before_profile and hasattr(self, name):
                self._before_profile[name] = copy.deepcopy(getattr(self, name))
        super()._apply_overrides(spawner_override)

    def _undo_profile(self) -> None:
        """Set the spawner's settings back to their values before its profile; do nothing if no profile was applied."""
        for name, value in self._before_profile.items():
            setattr(self, name, value)
        self._before_profile.clear()

    def _read_form(self, form: Form) -> JsonObject:
        """Return `user_options` from the fields of the form, those of profiles included."""
        of_profiles = {name: values for name, values in form.items() if name == PROFILE or name.startswith(_FIELD)}
        rest = {name: values for name, values in form.items() if name not in of_profiles}
        return {**options_form.read_form(rest), **self._options_from_form(of_profiles)}

    def _render_options_form(self, profile_list: list[Profile]) -> str:
        """Return the HTML of KubeSpawner's form, with the user's last choice selected if that is still possible."""
        saved = self.user_options
        try:
            read_request_with_profiles(saved, self._get_initialized_profile_list(profile_list), also_known=None)
        except UserError:
            self.user_options = {}
        try:
            form: str = super()._render_options_form(profile_list)
        finally:
            self.user_options = saved
        return form


async def render_page(spawner: ProfileSpawner) -> str:
    """Return the HTML of the form: the profiles, then the shares, because a profile may name a share.

    If there are no profiles, or their list cannot be computed, return the shares alone.
    """
    try:
        profiles = await spawner.profiles()
    except BrokenProfiles:
        profiles = []
    if not profiles:
        return await options_form.render_page(spawner)
    form = spawner._render_options_form(profiles)
    return await options_form.render_page(spawner, options_form.Profiles(form=form, shares=find_named_shares(profiles)))
