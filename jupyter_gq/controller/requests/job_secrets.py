"""The check of a new job's secrets. Only their names are known here."""

from collections.abc import Mapping, Sequence

from jupyter_gq.client.environment.user_secrets import is_valid_name
from jupyter_gq.client.environment.variables import matches
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.errors import SecretUnavailable
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.domain.workload import Kind

from .file_threads import run_in_file_thread


def check_secrets(context: Context, names: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raise `SecretUnavailable` if the settings do not let the job have each of these secrets.

    `environment` has the variables of the job; a name that is also there is refused. Whether the secrets are stored is
    checked by `check_stored_secrets`.
    """
    allowed = context.settings.secrets
    if not names:
        return
    strange = [name for name in names if not is_valid_name(name)]
    if strange:
        raise SecretUnavailable(
            f"{quoted(strange[0])} is no name of a secret. A name has letters, digits and underscores, and begins with "
            "no digit, such as HF_TOKEN."
        )
    refused = [name for name in names if not matches(name, allowed)]
    if refused:
        raise SecretUnavailable(
            f"Jobs may not have the secret {', '.join(refused)} here. Leave it out, or ask your administrator to add "
            "it to c.TrainingQueues.secrets."
        )
    doubled = [name for name in names if name in environment]
    if doubled:
        raise SecretUnavailable(f"{', '.join(doubled)} is both a variable and a secret of the job. Leave one out.")
    if context.backend_of(Kind.TRAINING).capabilities.secrets is None:
        raise SecretUnavailable(
            "Jobs of this cluster cannot have secrets. Leave them out, or ask your administrator to set "
            "c.KubernetesBackend.user_secret."
        )


async def check_stored_secrets(
    context: Context, caller: Caller, names: Sequence[str], environment: Mapping[str, str]
) -> None:
    """Raise `SecretUnavailable` unless the job may have each of these secrets and the caller has stored them.

    `environment` are the variables of the job. Where only the cluster knows whether a secret is stored, the start of
    the job shows that.
    """
    check_secrets(context, names, environment)
    secrets = context.backend_of(Kind.TRAINING).capabilities.secrets
    if not names or secrets is None:
        return
    # In a thread: a home that does not answer must not keep other requests waiting.
    find, home = secrets.find_missing, environment.get("HOME", "")
    missing = await run_in_file_thread(caller.user, find, caller.user, home, names)
    if missing:
        commands = ", ".join(f"`jupyter-gq secret set {name}`" for name in missing)
        raise SecretUnavailable(
            f"You have not stored {', '.join(missing)} on this machine. Run {commands} in a terminal there, then send "
            "again."
        )
