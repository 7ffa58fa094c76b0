"""Profiles of KubeSpawner and shares of ours, together: what is asked for, the options page, what profiles change.

Rules
-----
1. `gpus` in a profile, or in a choice of its options, is its share; see `profiles`.
2. What a profile changed on the spawner is taken back before the next start: KubeSpawner merges into what is there,
   and a GPU asked for once would stay.
3. An error of the list of profiles, or of KubeSpawner while it applies one, is a refusal with a sentence.
"""

import copy
from typing import Any

from tornado.web import HTTPError
from traitlets import default

from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.hub import options_form
from jupyter_gq.hub.admission.profiles import PROFILE, Profile, named_shares, request_with_profiles
from jupyter_gq.hub.admission.refusal import refuse
from jupyter_gq.hub.admission.request import ShareRequest
from jupyter_gq.hub.base import OverSpawner
from jupyter_gq.hub.mixin import maybe

_FIELD = "profile-option-"


class BrokenProfiles(UserError):
    """The administrator's list of profiles cannot be made."""

    code = "broken_profiles"


class ProfileShares(OverSpawner):  # type: ignore[misc]  # jupyterhub has no types
    """Goes before `GPUShareMixin`, over KubeSpawner."""

    user_options: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        #: What was there before a profile changed it, by the name of the setting.
        self._before_profile: JsonObject = {}
        super().__init__(*args, **kwargs)

    @default("options_form")
    def _page_with_profiles(self) -> Any:
        return page

    @default("options_from_form")
    def _reader_with_profiles(self) -> Any:
        return self._read_form

    async def read_request(self) -> ShareRequest:
        """The share that the options and the profiles name."""
        return request_with_profiles(self.user_options, await self.profiles(), also_known=self.other_options())

    async def profiles(self) -> list[Profile]:
        """The administrator's list with slugs and defaults; raise `BrokenProfiles` when it cannot be made."""
        try:
            profiles = self.profile_list
            if callable(profiles):
                profiles = await maybe(profiles(self))
            found: list[Profile] = self._get_initialized_profile_list(self._sorted_dict_values(profiles))
        except Exception as error:
            self.log.exception("The list of profiles cannot be made")
            raise BrokenProfiles("The list of profiles could not be made. Ask your administrator.") from error
        return found

    async def load_user_options(self) -> None:
        """Called by KubeSpawner in a start; a second time when another place is tried."""
        self._take_profile_back()
        try:
            await super().load_user_options()
        except HTTPError:
            raise
        except Exception as error:
            self.log.exception("The profile of %s cannot be applied", self._log_name)
            name = self.user_options.get(PROFILE) or "chosen by default"
            sentence = f"The profile {name} cannot be used. Choose another one, or ask your administrator."
            raise refuse(self, sentence, "gpu_bad_request", 400) from error

    def clear_state(self) -> None:
        """Called before a start and after an end."""
        self._take_profile_back()
        super().clear_state()

    def _apply_overrides(self, spawner_override: JsonObject) -> None:
        for name in spawner_override:
            if name not in self._before_profile and hasattr(self, name):
                self._before_profile[name] = copy.deepcopy(getattr(self, name))
        super()._apply_overrides(spawner_override)

    def _take_profile_back(self) -> None:
        for name, value in self._before_profile.items():
            setattr(self, name, value)
        self._before_profile.clear()

    def _read_form(self, form: dict[str, list[Any]]) -> JsonObject:
        of_profiles = {name: values for name, values in form.items() if name == PROFILE or name.startswith(_FIELD)}
        rest = {name: values for name, values in form.items() if name not in of_profiles}
        return {**options_form.read(rest), **self._options_from_form(of_profiles)}

    def _render_options_form(self, profile_list: Any) -> str:
        """KubeSpawner shows what was chosen last, also when it has become impossible: here not."""
        saved = self.user_options
        try:
            request_with_profiles(saved, self._get_initialized_profile_list(profile_list), also_known=None)
        except UserError:
            self.user_options = {}
        try:
            form: str = super()._render_options_form(profile_list)
        finally:
            self.user_options = saved
        return form


async def page(spawner: Any) -> str:
    """The form's HTML: the profiles, then the shares, since a profile may come with one."""
    try:
        profiles = await spawner.profiles()
    except BrokenProfiles:
        profiles = []
    if not profiles:
        return await options_form.page(spawner)
    form = spawner._render_options_form(profiles)
    return await options_form.page(spawner, options_form.Profiles(form=form, shares=named_shares(profiles)))
