"""The marks of a pod of ours: the labels and annotations by which the service knows what the pod is and what it holds.

Rules
-----
- The lifetime rule: a pod keeps the marks with which it was first seen until it is gone. Somebody may take a label or
  an annotation from a running pod, or change it; the pod holds its devices all the same.
- The restart rule: a service that starts knows only the marks that are left. A pod that says which slots it holds is
  one of ours then too, unless it names another installation.

See docs/decisions/0277-let-a-pod-keep-its-labels.md.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.objects import names

log = logging.getLogger(__name__)

#: Pods that a sentence names.
_NAMED = 3


def is_of_installation(pod: PodView, installation: str) -> bool:
    """Return whether a pod of a namespace of ours is one of this installation.

    A pod that names no installation counts as one if it names a slot.
    """
    holds = bool(pod.slots) or names.SLOT in pod.annotations
    return pod.labels.get(names.INSTALLATION, installation if holds else "") == installation


def is_server(pod: PodView) -> bool:
    """Return whether a pod of the Hub's namespace is a server with a ticket, or with a device of ours."""
    return bool(pod.workload or pod.slots)


@dataclass(frozen=True, slots=True)
class MarkKeeper:
    """The choice of the pods of ours among those of a namespace; each is returned with the marks that it had first."""

    is_ours: Callable[[PodView], bool]

    def __call__(self, known: PodView | None, seen: PodView) -> PodView | None:
        """Return the pod with its marks; None if it is none of ours.

        A warning is logged each time that the missing or different marks are other ones than before.
        """
        if known is None or known.uid != seen.uid:
            return seen if self.is_ours(seen) else None
        lost = (
            *seen.lost_marks,  # of the pod of a Job, which is seen with the marks of its template
            *_find_lost(known.labels, seen.labels),
            *_find_lost(known.annotations, seen.annotations),
        )
        if lost and lost != known.lost_marks:
            _warn(seen, lost)
        return replace(
            seen,
            labels={**seen.labels, **known.labels},
            annotations={**seen.annotations, **known.annotations},
            lost_marks=lost,
            changed=known.changed,
        )


def describe_lost_marks(pod: PodView) -> str:
    """Return what was taken from a running pod, for the owner of its work; "" if nothing was."""
    if not pod.lost_marks:
        return ""
    return (
        f"Somebody has taken {', '.join(pod.lost_marks)} from the pod {pod.name}, or changed it. Its work goes on, but "
        "the service may not know the pod after a restart: ask your administrator to put it back."
    )


def list_lost_marks(pods: Iterable[PodView]) -> list[str]:
    """Return one sentence for administrators on all pods from which marks were taken; none if there is no such pod."""
    lost = sorted((pod.namespace, pod.name, ", ".join(pod.lost_marks)) for pod in pods if pod.lost_marks)
    if not lost:
        return []
    named = "; ".join(f"{name} in {namespace}: {marks}" for namespace, name, marks in lost[:_NAMED])
    more = f"; and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
    return [
        f"Labels or annotations of running pods were taken away or changed ({named}{more}). The pods count as before, "
        "but the service may not know them after a restart. Put the marks back, and leave the namespace out of the "
        "controller that does so."
    ]


def _find_lost(marks: Mapping[str, str], seen: Mapping[str, str]) -> list[str]:
    return sorted(key for key, text in marks.items() if seen.get(key) != text)


def _warn(pod: PodView, lost: tuple[str, ...]) -> None:
    log.warning(
        "somebody has taken %s from the pod %s in %s, or changed it: the pod counts as before until it is gone; "
        "put it back, because the service does not know it after a restart",
        ", ".join(lost),
        pod.name,
        pod.namespace,
    )
