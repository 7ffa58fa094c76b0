"""The membership of an elastic run: which tasks it has, by number and place, and which leave it. Pure.

Rules
-----
- The pod rule: the membership is derived from pods and from the places of the record, and derived again after a restart
  of the service. A pod has the place whose slots it holds.
- The number rule: a number is free again once the pod that had it is gone, because pods are named by numbers.
- The closing rule: if a task cannot join, the run is closed for `_PAUSE` seconds if the reason may pass, and otherwise
  for good.

See docs/decisions/0180-resize-runs-of-pods.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.run_size import find_free_number, plan_resize
from jupyter_gq.domain.workload import TaskPlacement, Workload

#: Seconds for which no task joins a run after one could not for a reason that may pass.
_PAUSE = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Membership:
    """The tasks of an elastic run."""

    #: The most tasks that the run may have.
    most: int
    #: Places of the tasks that the run has or is to have, by number.
    members: Mapping[int, TaskPlacement] = field(default_factory=dict)
    #: Places of the tasks that were told to leave and whose pods may still exist, by number.
    leaving: Mapping[int, TaskPlacement] = field(default_factory=dict)
    #: Until when no task joins, on the monotonic clock.
    closed_until: float = float("-inf")
    #: Why no task joins, for the owner; "" if nothing is wrong.
    reason: str = ""

    @property
    def is_closed(self) -> bool:
        """Whether no task may join, because one could not and `reopen` has not opened the run again."""
        return bool(self.reason)

    def describe_closing(self) -> str:
        """Return why no task joins, for the owner; "" if nothing is wrong."""
        return f"No task can be added to this run. {self.reason}" if self.reason else ""

    def reopen(self, now: float) -> "Membership":
        """Return the membership, open again if the time for which it was closed is over."""
        if not self.reason or now < self.closed_until:
            return self
        return replace(self, closed_until=float("-inf"), reason="")

    @property
    def places(self) -> tuple[TaskPlacement, ...]:
        """The places that hold devices: of the members in the order of their numbers, then of those that leave."""
        return tuple(place for group in (self.members, self.leaving) for _, place in sorted(group.items()))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the tasks in `places`, in that order."""
        return (*sorted(self.members), *sorted(self.leaving))

    def resize(self, wanted: Sequence[TaskPlacement], *, may_grow: bool) -> "Membership":
        """Return the membership with a task at each wanted place; none joins unless `may_grow` and a number is free."""
        plan = plan_resize(self.members, wanted)
        leaving = {**self.leaving, **{number: self.members[number] for number in plan.leaving}}
        members = {number: place for number, place in self.members.items() if number not in plan.leaving}
        for place in plan.joining if may_grow else ():
            number = find_free_number({*members, *leaving}, self.most)
            if number is not None:
                members[number] = place
        return replace(self, members=members, leaving=leaving)

    def dismiss(self, number: int) -> "Membership":
        """Return the membership after a member was told to leave."""
        members = {other: place for other, place in self.members.items() if other != number}
        return replace(self, members=members, leaving={**self.leaving, number: self.members[number]})

    def close(self, reason: str, now: float, *, may_pass: bool) -> "Membership":
        """Return the membership, closed to tasks that could join from `now` on, because one could not.

        The closing lasts for `_PAUSE` seconds if the reason may pass, or else for ever. `reason` is for the owner.
        """
        return replace(self, closed_until=now + _PAUSE if may_pass else float("inf"), reason=reason)

    def free(self, number: int) -> "Membership":
        """Return the membership after a leaving task has gone."""
        return replace(self, leaving={other: place for other, place in self.leaving.items() if other != number})


def derive_membership(workload: Workload, pods: Mapping[int, PodView], *, fills: bool) -> Membership:
    """Return the membership of a run from the places of its record and from its pods, by number.

    If `fills`, places without a pod get one of the free numbers. A pod at a place that the record does not name is a
    member, unless the pod is being deleted.
    """
    places, leaving_places = list(workload.placement), [leaving.task for leaving in workload.leaving]
    members: dict[int, TaskPlacement] = {}
    leaving: dict[int, TaskPlacement] = {}
    for number, pod in sorted(pods.items(), key=lambda item: (not item[1].terminating, item[0])):
        choices = [(places, members), (leaving_places, leaving)]
        for left, tasks in reversed(choices) if pod.terminating else choices:
            place = next((each for each in left if _has_place(pod, each)), None)
            if place is not None:
                left.remove(place)
                tasks[number] = place
                break
        else:
            tasks = leaving if pod.terminating else members
            tasks[number] = TaskPlacement(node=pod.node, devices=pod.slots)
    for place in places if fills else ():
        free = find_free_number({*members, *leaving}, workload.tasks)
        if free is not None:
            members[free] = place
    return Membership(most=workload.tasks, members=members, leaving=leaving)


def _has_place(pod: PodView, place: TaskPlacement) -> bool:
    """Return whether the pod was made for this place."""
    return pod.slots == place.devices and (bool(pod.slots) or pod.node in ("", place.node))
