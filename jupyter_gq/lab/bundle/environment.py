"""The variables of this server that go along with a job: names for the dialog, values for the bundle.

Rules
-----
- Always: the variables of the setting `JupyterGQ.environment`.
- Proposed: those that the cells read by name, and the proxies of the network; the user may leave them out.
- Offered: the other variables of this server, without those that mean something on this machine or process only.
- Other image: what says where this machine has its programs and libraries stays, unless the user names it.
- Never: variables of the Hub and of the service, the memory limits of this server's share of a GPU, and secrets.
  Values are never shown, only sent.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jupyter_gq.client.environment.secret_names import explain_secret, holds_secret, is_secret_name
from jupyter_gq.client.environment.user_secrets import list_secrets
from jupyter_gq.client.environment.variables import CAP_VARIABLES, NO_VARIABLE, RESERVED, matches
from jupyter_gq.domain.plain_text import quoted, shorten
from jupyter_gq.lab.refusal import RefusedRequest
from jupyter_gq.lab.requests import CellWarning, PlannedEnvironment, PlannedSecret, PlannedVariable

from .kernelspec import can_send, select_environment
from .variable_reads import VariableReads, find_read_variables

#: Variables by which programs find the proxies of the network; curl and Python read the lower case.
PROXIES = tuple(
    name for each in ("http_proxy", "https_proxy", "no_proxy", "all_proxy") for name in (each.upper(), each)
)
_HUGGING_FACE = ("datasets", "diffusers", "huggingface_hub", "sentence_transformers", "transformers")
_AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
#: Secrets that libraries read by themselves, by the package that code imports.
_OF_LIBRARIES = {
    **dict.fromkeys(_HUGGING_FACE, ("HF_TOKEN",)),
    **dict.fromkeys(("boto3", "botocore", "s3fs"), _AWS),
    "wandb": ("WANDB_API_KEY",),
    "comet_ml": ("COMET_API_KEY",),
    "neptune": ("NEPTUNE_API_TOKEN",),
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
}
#: Variables that say something about this process, terminal or pod, and would be wrong in a job.
_OF_THIS_PROCESS = (
    *("_", "PWD", "OLDPWD", "SHLVL", "TERM", "TERM_*", "COLORTERM", "LS_COLORS", "LINES", "COLUMNS", "HOSTNAME"),
    *("DISPLAY", "WAYLAND_*", "XDG_*", "DBUS_*", "SSH_*", "GPG_*", "SUDO_*", "INVOCATION_ID", "JOURNAL_STREAM"),
    *("KUBERNETES_*", "*_SERVICE_HOST", "*_SERVICE_PORT", "*_SERVICE_PORT_*", "*_PORT", "*_PORT_*", "PS1", "EDITOR"),
    *("MEM_LIMIT", "MEM_GUARANTEE", "CPU_LIMIT", "CPU_GUARANTEE", "JUPYTER_IMAGE*", "PYDEVD_*", "GIT_PAGER", "PAGER"),
    "JUPYTER_DEFAULT_PROVISIONER_NAME",
)
#: Variables that say where the programs and libraries of this machine or image are.
_OF_THIS_SOFTWARE = (
    *(
        "PATH",
        "SHELL",
        "VIRTUAL_ENV",
        "CONDA_*",
        "MAMBA_*",
        "PYTHONPATH",
        "PYTHONHOME",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
    ),
    *("CUDA_HOME", "CUDA_PATH", "CUDA_VERSION", "NVIDIA_*", "R_LIBS*", "R_HOME", "JULIA_*", "JAVA_HOME"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerEnvironment:
    """The environment of this server. `sources` are the cells of Python that will run, and `found` what they read."""

    environ: Mapping[str, str]
    #: Patterns of the variables that always go along.
    usual: tuple[str, ...]
    #: Patterns of the variables that go along only if the user names them, since the job has other software.
    of_software: tuple[str, ...] = ()

    def for_image(self) -> "ServerEnvironment":
        """Return this environment for a job in another image, which has its programs and libraries elsewhere."""
        return replace(self, of_software=_OF_THIS_SOFTWARE)

    def select_usual(self) -> dict[str, str]:
        """Return the variables that always go along."""
        usual = select_environment(self.environ, self.usual)
        return {name: value for name, value in usual.items() if not matches(name, (*self.of_software, *self._of_share))}

    @property
    def _of_share(self) -> tuple[str, ...]:
        """The variables that limit the memory of this server's share: the job's own share has other limits."""
        return CAP_VARIABLES if "JUPYTER_GQ_MEMORY_FRACTION" in self.environ else ()

    def plan(self, found: VariableReads) -> PlannedEnvironment:
        """Return the names of the variables that go along with these cells, are proposed, and may be added."""
        usual, reads = self.select_usual(), found.read
        offered = [
            name
            for name, value in sorted(self.environ.items())
            if name not in usual
            and can_send(name, value)
            and not matches(name, (*self.of_software, *self._of_share))
            and (name in reads or name in PROXIES or not matches(name, _OF_THIS_PROCESS))
        ]
        return PlannedEnvironment(
            always=list(usual),
            variables=[PlannedVariable(name=name, why=_explain(name, reads)) for name in offered],
            secrets=self._plan_secrets(found),
        )

    def _plan_secrets(self, found: VariableReads) -> list[PlannedSecret]:
        """Return the secrets that are stored here, and those that the cells want."""
        stored = list_secrets(self.environ.get("HOME", ""))
        wanted = {name for name in found.read if holds_secret(name, self.environ.get(name, ""))}
        wanted |= {name for package in found.packages for name in _OF_LIBRARIES.get(package, ())}
        return [
            PlannedSecret(name=name, wanted=name in wanted or name in found.read, stored=name in stored)
            for name in sorted({*stored, *wanted})
        ]

    def choose(self, sources: Iterable[str], chosen: Sequence[str] | None) -> dict[str, str]:
        """Return the variables that are sent: the usual ones, and the `chosen` ones; None = those that are proposed.

        Raises `RefusedRequest` for a chosen variable that is a secret, that only the Hub or the service sets, or that
        this server does not have.
        """
        if chosen is None:
            found = find_read_variables(sources)
            chosen = [each.name for each in self.plan(found).variables if each.why != "offered"]
        for name in chosen:
            why = self._explain_refusal(name)
            if why:
                raise RefusedRequest("invalid_variable", why, field="variables")
        return self.select_usual() | {name: self.environ[name] for name in chosen}

    def list_warnings(self, found: VariableReads, of_kernel: Sequence[str]) -> list[CellWarning]:
        """Return warnings about variables that the cells read and that do not go along.

        `of_kernel` are the names of the variables that the kernelspec sets.
        """
        warnings = []
        for name, needed in found.read.items():
            value, shown = self.environ.get(name), shorten(name)
            if name in of_kernel or matches(name, RESERVED):
                continue
            if holds_secret(name, value or ""):
                said = f"The cells read {shown}, a secret. The job has it only if it is ticked under Environment."
                warnings.append(CellWarning(code="reads_secret", message=said))
            elif value is None and needed:
                said = f"The cells read {shown}, which this server does not have; the job will not have it either."
                warnings.append(CellWarning(code="reads_missing", message=said))
        return warnings

    def _explain_refusal(self, name: str) -> str:
        """Return as a sentence why a variable cannot be sent; "" if it can."""
        if NO_VARIABLE.search(name):
            return f"{quoted(name)} is no name of a variable: letters, digits and _ were expected."
        if matches(name, RESERVED):
            return f"{name} is set by the Hub or the scheduler and is never sent. Leave it out."
        if name in self._of_share:
            return f"{name} limits the memory of this server's share; the job's own share sets it. Leave it out."
        if is_secret_name(name):
            return f"{explain_secret(name)}."
        if name not in self.environ:
            return f"This server has no variable {name}. Leave it out, or restart the server with it."
        if not can_send(name, self.environ[name]):
            return f"The value of {name} has a password in it. {explain_secret(name)}."
        return ""


def _explain(name: str, reads: Mapping[str, bool]) -> Literal["read", "proxy", "offered"]:
    """Return why a variable is in the plan."""
    if name in reads:
        return "read"
    return "proxy" if name in PROXIES else "offered"
