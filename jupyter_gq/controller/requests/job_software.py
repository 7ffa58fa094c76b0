"""The software of a new job: an image that administrators offer, or a kernel of its notebook's server.

See docs/decisions/0162-choose-the-software-of-a-job-by-one-name.md.
"""

from jupyter_gq.controller.context import Context
from jupyter_gq.domain.errors import UnknownSoftware


def find_image(context: Context, software: str, kernel: str) -> str:
    """Return the image of the software that a job names; "" if the job runs in the image of its notebook.

    That is so if `software` is empty or the name of the job's `kernel`, which its bundle describes. Raises
    `UnknownSoftware` for a name that is not offered.
    """
    if software in ("", kernel):
        return ""
    images = context.images
    if software not in images:
        raise UnknownSoftware(software, tuple(images))
    return images[software]
