"""The software of a new job: an image that administrators offer, or a kernel of its notebook's server.

See docs/decisions/0162-choose-the-software-of-a-job-by-one-name.md.
"""

from collections.abc import Mapping

from jupyter_gq.domain.errors import UnknownSoftware


def find_image(images: Mapping[str, str], software: str, kernel: str) -> str:
    """Return the image of the software that a job names; "" if the job runs in the image of its notebook.

    That is so if `software` is empty or the name of the job's `kernel`, which its bundle describes. `images` are the
    offered ones by name; raises `UnknownSoftware` for a name that is none of theirs.
    """
    if software in ("", kernel):
        return ""
    if software not in images:
        raise UnknownSoftware(software, tuple(images))
    return images[software]
