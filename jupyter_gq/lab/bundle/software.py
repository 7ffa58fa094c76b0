"""The software of a job: that of its notebook, another kernel of this server, or an image that the service offers.

Rules
-----
- One name: the user names a kernel or an image. A kernel of this server comes first if both have the name.
- Same language: a kernel of another language could not run the cells.
- Another image has neither the kernelspecs nor the interpreters of this machine, so its Python starts the kernel.

See docs/decisions/0162-choose-the-software-of-a-job-by-one-name.md.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_core.utils import ensure_async

from jupyter_gq.client.models import Kernel
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.lab.jupyter_parts import KernelSpec, KernelSpecs
from jupyter_gq.lab.refusal import RefusedRequest

from .kernelspec import names_command

#: Command of a kernel of Python on another machine or in another image.
PORTABLE_COMMAND = ("python3", "-m", "ipykernel_launcher", "-f", "{connection_file}")
#: Most names that a refusal lists.
_MOST_LISTED = 20

#: Returns the names of the images in which jobs may run.
FetchImages = Callable[[], Awaitable[Sequence[str]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Software:
    """The software that a user has chosen for a job."""

    #: Name of a kernel or of an image; "" = the software of the notebook.
    name: str = ""
    is_image: bool = False
    #: Titles of the kernels that can be chosen in place of the notebook's, by their names.
    others: Mapping[str, str] = field(default_factory=dict)
    #: Variables that the chosen kernelspec sets, which may be secrets.
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)


#: The software of the notebook, where nothing else is known.
NOTEBOOKS_OWN = Software()


async def list_kernels(specs: KernelSpecs, language: str | None = None) -> dict[str, str]:
    """Return the titles of this server's kernels by their names; with a language, only of those that have it."""
    titles = {}
    for name, found in (await ensure_async(specs.get_all_specs())).items():
        # A server whose kernels run behind a gateway answers in another form, and offers none here.
        spec = found.get("spec") if isinstance(found, dict) else None
        if not isinstance(spec, dict):
            continue
        same = language is None or str(spec.get("language", "")).lower() == language.lower()
        if same and names_command(spec.get("argv")):
            titles[name] = str(spec.get("display_name") or name)
    return titles


async def find_software(
    wanted: str, own: str, language: str, kernels: Mapping[str, str], fetch_images: FetchImages
) -> Software:
    """Return the software of the name `wanted` for a notebook with the kernel `own`.

    `kernels` are the titles of the kernels of its language, by their names. Raises `RefusedRequest` for a name that is
    not offered, with the names that are.
    """
    others = {name: title for name, title in kernels.items() if name != own}
    if wanted in ("", own):
        return Software(others=others)
    if wanted in others:
        return Software(name=wanted, others=others)
    images = await fetch_images()
    if wanted not in images:
        raise RefusedRequest("unknown_software", explain_unknown(wanted, [*others, *images]), field="software")
    if language.lower() != "python":
        raise RefusedRequest(
            "unknown_software",
            f"The image {quoted(wanted)} can be chosen for notebooks in Python only, and this one is in {language}. "
            "Send it with the software of the notebook.",
            field="software",
        )
    return Software(name=wanted, is_image=True, others=others)


def explain_unknown(wanted: str, offered: Sequence[str]) -> str:
    """Return why a job cannot have this software, with the names of what is offered."""
    shown = ", ".join(offered[:_MOST_LISTED]) + (", …" if len(offered) > _MOST_LISTED else "")
    choices = f"Offered are: {shown}." if offered else "No other software is offered here."
    return (
        f"There is no software {quoted(wanted)} here. {choices} A job that names none runs with the software of its "
        "notebook."
    )


def describe_portable_kernel(name: str, spec: KernelSpec) -> Kernel:
    """Return a kernel of Python that another image starts in place of this kernelspec."""
    return Kernel(name=name, display_name=spec.display_name, language=spec.language, argv=list(PORTABLE_COMMAND))
