"""The kernels that are installed on this machine, as the commands name and describe them.

jupyter_client warns of each kernelspec whose folder has an unusual name. Such a kernel can be used all the same, and
nobody asked for it, so the warnings are not printed.
"""

import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from traitlets import TraitError

from jupyter_gq.client.models import Kernel
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.lab.bundle.kernelspec import describe_kernel, names_command
from jupyter_gq.lab.jupyter_parts import KernelSpec

from .refusal import CommandRefused


def find_kernel_names() -> Collection[str]:
    """Return the names of all kernels that are installed here, also of those that cannot be used."""
    with _without_warnings():
        return KernelSpecManager().find_kernel_specs()


def list_kernels_of(language: str) -> list[str]:
    """Return the names of the usable kernels of a language that are installed here."""
    with _without_warnings():
        specs = KernelSpecManager().get_all_specs()
    return [name for name, each in specs.items() if str(each["spec"]["language"]).lower() == language.lower()]


def describe_installed_kernel(name: str, environment: Mapping[str, str]) -> Kernel:
    """Return the kernel of this name that is installed here, as it starts in this environment.

    Raises `CommandRefused` if there is none, or if its kernel.json cannot be used.
    """
    try:
        with _without_warnings():
            spec = cast(KernelSpec, KernelSpecManager().get_kernel_spec(name))
    except NoSuchKernel:
        raise CommandRefused(
            f"The kernel {quoted(name)} is not installed here. Choose another one with --kernel; `jupyter kernelspec "
            "list` names them."
        ) from None
    except (OSError, ValueError, TypeError, TraitError, RecursionError):
        raise _refuse(name, "it is no kernelspec in JSON") from None
    if not names_command(spec.argv):
        raise _refuse(name, "it names no command")
    return describe_kernel(name, spec, environment)


def _refuse(name: str, why: str) -> CommandRefused:
    return CommandRefused(
        f"The file kernel.json of the kernel {quoted(name)} cannot be used: {why}. `jupyter kernelspec list` says "
        "where it is. Install the kernel again, or choose another one."
    )


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Ignore warnings of Python during the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
