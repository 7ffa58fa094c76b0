"""Labels, annotations and names of what the backend makes.

Rules
-----
1. A name follows from what the thing is for, so that making it twice is one thing: the second time it is there already.
2. A name of ours is a DNS label of at most 63 characters, whatever a node or a job is called.
3. What a pod belongs to is read from its labels, never from its name.
"""

import hashlib
import re
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

RUNNER_ACCOUNT = "gq-runner"
RESERVATION_ACCOUNT = "gq-reservation"

_MOST = 63


@lru_cache(maxsize=2**14)
def slug(text: str, most: int = _MOST) -> str:
    """A DNS label that stands for `text`: itself where it is one, else shortened and told apart by a hash."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if plain == text and 0 < len(text) <= most:
        return text
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{plain[: most - 9].strip('-')}-{mark}".lstrip("-")


def training_name(job: str, run: int, task: int) -> str:
    """The pod of one task."""
    tail = f"-{run}-{task}"
    return f"gq-{slug(job, _MOST - 3 - len(tail))}{tail}"


def gang_name(job: str, run: int) -> str:
    """The headless service by which the tasks of a gang find each other; each run has its own."""
    tail = f"-{run}"
    return f"gq-{slug(job, _MOST - 3 - len(tail))}{tail}"


def slot_of(node: str, index: int) -> str:
    """One GPU of a node, as the core counts them."""
    return f"{node}/{index}"


def node_of(slot: str) -> str:
    """The node of a slot."""
    return slot.rpartition("/")[0]


def slot_slug(slot: str) -> str:
    """A label value for a slot."""
    return slug(slot.replace("/", "_"), 50)


def reservation_name(slot: str, number: int = 0) -> str:
    """The pod that holds a device for that slot; `number` counts those made while the right device was looked for."""
    return f"gq-res-{slot_slug(slot)}" + (f"-{number}" if number else "")


def placeholder_name(pool: str, number: int) -> str:
    """The pod that asks for a new node of that pool; several at one time have numbers from 0."""
    tail = f"-{number}"
    return f"gq-grow-{slug(pool, _MOST - 8 - len(tail))}{tail}"


def labels(installation: str, component: str) -> dict[str, str]:
    """What everything that we make carries."""
    return {NAME: PRODUCT, INSTANCE: installation, COMPONENT: component, INSTALLATION: installation}


def listed(text: str | None) -> tuple[str, ...]:
    """The parts of an annotation that lists something."""
    return tuple(part for part in (text or "").split(",") if part)
