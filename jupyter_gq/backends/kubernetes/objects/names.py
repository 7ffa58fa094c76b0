"""Labels, annotations and names of the objects that the backend makes.

Rules
-----
1. Idempotence. A name follows from the purpose of the object, so that making it twice makes one object.
2. Form. A name is a DNS label of at most 63 characters, whatever a node or a job is called.
3. Reading. The owner of a pod is read from its labels, never from its name.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache

PREFIX = "jupyter-gq.org/"
INSTALLATION = f"{PREFIX}installation"
WORKLOAD = f"{PREFIX}workload"
ATTEMPT = f"{PREFIX}attempt"
TASK = f"{PREFIX}task"
#: On reservation pods: slug of the slot.
RESERVATION = f"{PREFIX}reservation"
#: On reservation pods: the slot itself.
SLOT = f"{PREFIX}slot"
#: On pods of work: the slots that they hold, separated by commas.
SLOTS = f"{PREFIX}slots"
#: No node has as many devices, slices and parts of devices.
MOST_SLOTS = 4096
#: On pods of work: the devices that they were given by name, separated by commas.
DEVICES = f"{PREFIX}devices"
#: On pods of training: how many tasks their run has.
TASKS = f"{PREFIX}tasks"
#: On placeholders: the pool of the node that they ask for.
GROWS = f"{PREFIX}grows"
NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"
INSTANCE = "app.kubernetes.io/instance"
PRODUCT = "jupyter-gq"
TRAINING = "gq-training"
RESERVATIONS = "gq-reservation"
PLACEHOLDERS = "gq-placeholder"
SERVICE = "gq-service"
CHECKS = "gq-check"

#: Names of main containers: of jobs and of trials, of pods that only hold devices, and of notebooks (KubeSpawner's).
RUNNER, HOLDER, NOTEBOOK = "runner", "hold", "notebook"

RUNNER_ACCOUNT = "gq-runner"
RESERVATION_ACCOUNT = "gq-reservation"

_MOST = 63


#: Most characters of a user's name in the name of an object; with a hash, `shared_volumes.LONGEST_USER_PART`.
_LONGEST_USER = 30
#: Most characters that KubeSpawner keeps of a user's name before its hash.
_HUB_USER = 21


@lru_cache(maxsize=2**14)
def slug(text: str, most: int = _MOST) -> str:
    """Return a DNS label that stands for `text`: the text if it is one, else shortened, with a hash of 32 bits.

    Whoever can choose the text can make it stand for another one too: names of users need `user_part`.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if plain == text and 0 < len(text) <= most:
        return text
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{plain[: most - 9].strip('-')}-{mark}".lstrip("-")


def user_part(user: str) -> str:
    """Return a part of a DNS label, or of a path, that stands for this user and no other, whatever names users choose.

    Names of other characters, or with two hyphens in a row, become their plain letters, three hyphens, and a hash that
    nobody can hit by choosing a name.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", user.lower()).strip("-")
    if plain == user and len(user) <= _LONGEST_USER:
        return user
    return f"{plain[:_LONGEST_USER].strip('-')}---{hashlib.sha256(user.encode()).hexdigest()[:20]}".lstrip("-")


def hub_user(user: str) -> str:
    """Return the name of a user as KubeSpawner 7 writes it for `{username}`, such as in the names of home volumes.

    A name that is a DNS label without two hyphens in a row stays as it is; another one becomes its plain letters, three
    hyphens, and a hash.
    """
    if re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", user) and "--" not in user:
        return user
    plain = re.sub(r"[^a-z0-9]+", "-", user.lower()).lstrip("-")[:_HUB_USER].rstrip("-")
    if not plain[:1].isalpha():
        plain = f"x-{plain[: _HUB_USER - 2]}" if plain else "x"
    return f"{plain}---{hashlib.sha256(user.encode()).hexdigest()[:8]}"


def training_name(job: str, run: int, task: int) -> str:
    """Return the name of the pod of one task, and of its Job where Jobs create pods."""
    tail = f"-{run}-{task}"
    return f"gq-{slug(job, _MOST - 3 - len(tail))}{tail}"


def gang_name(job: str, run: int) -> str:
    """Return the name of the headless service of a run, by which the tasks of a gang find each other."""
    tail = f"-{run}"
    return f"gq-{slug(job, _MOST - 3 - len(tail))}{tail}"


def slot_of(node: str, index: int) -> str:
    """Return the name of a node's slot with this number, such as "gpu-1/0"."""
    return f"{node}/{index}"


def node_of(slot: str) -> str:
    """Return the name of the node in the name of a slot."""
    return slot.rpartition("/")[0]


def index_of(slot: str) -> int:
    """Return the number in the name of a slot."""
    return int(slot.rpartition("/")[2])


def read_slots(text: str | None) -> tuple[str, ...]:
    """Return the slots that an annotation lists; () if the annotation is missing or a part of it names no slot."""
    slots = listed(text)
    return slots if all(map(_is_slot, slots)) else ()


def _is_slot(text: str) -> bool:
    """Tell whether a text, which anybody may have written into an annotation, is the name of a slot."""
    node, _, number = text.rpartition("/")
    is_number = number.isascii() and number.isdecimal() and len(number) <= len(str(MOST_SLOTS))
    return is_number and int(number) < MOST_SLOTS and text == slot_of(node, int(number)) and bool(node)


def slot_slug(slot: str) -> str:
    """Return a label value of at most 50 characters that stands for a slot."""
    return slug(slot.replace("/", "_"), 50)


def reservation_name(slot: str, number: int = 0) -> str:
    """Return the name of the reservation pod of a slot; `number` counts the tries until the right device was found."""
    return f"gq-res-{slot_slug(slot)}" + (f"-{number}" if number else "")


def placeholder_name(pool: str, number: int) -> str:
    """Return the name of a placeholder pod of a pool; several at one time have numbers from 0."""
    tail = f"-{number}"
    return f"gq-grow-{slug(pool, _MOST - 8 - len(tail))}{tail}"


def labels(installation: str, component: str) -> dict[str, str]:
    """Return the labels that every object of this component of the installation has."""
    return {NAME: PRODUCT, INSTANCE: installation, COMPONENT: component, INSTALLATION: installation}


def main_container(labels: Mapping[str, str]) -> str:
    """Return the name of the container that does the work in a pod with these labels."""
    component = labels.get(COMPONENT, "")
    if component in (TRAINING, CHECKS):
        return RUNNER
    return HOLDER if component in (RESERVATIONS, PLACEHOLDERS) else NOTEBOOK


def listed(text: str | None) -> tuple[str, ...]:
    """Return the parts of an annotation that holds a list separated by commas; () if the annotation is missing."""
    return tuple(part for part in (text or "").split(",") if part)
