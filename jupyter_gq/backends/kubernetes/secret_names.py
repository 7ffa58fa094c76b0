"""The name of the Secret that has the secrets of a user."""

from traitlets import TraitError, Unicode

from .shared_volumes import LONGEST_NAME, LONGEST_USER_PART, OWNER, is_object_name


class SecretOfEachUser(Unicode):  # type: ignore[type-arg]
    """A trait for the name of the users' Secrets."""

    def validate(self, obj: object, value: object) -> str:
        """Return the name if it is empty or tells users apart, and can be that of a Secret; raise `TraitError`."""
        name: str = super().validate(obj, value) or ""
        if not name:
            return name
        trait = f"c.KubernetesBackend.{self.name} = {name!r}"
        if name.count(OWNER) != 1:
            raise TraitError(
                f"{trait}: all users would have one Secret. Write {OWNER} once where their names go, such as "
                f'"gq-{OWNER}".'
            )
        if not is_object_name(name):
            raise TraitError(
                f"{trait}: no Secret can have this name. Write small letters, digits, hyphens and dots, at most "
                f'{LONGEST_NAME - LONGEST_USER_PART} beside {OWNER}, such as "gq-{OWNER}".'
            )
        return name
