"""Pods that the cluster makes from Jobs of ours, compared with the template when they are read.

Rules
-----
- The Job rule: a pod belongs to the Job that it names as its controller, whatever labels are left on it.
- The first-view rule: only what a pod has when it is first seen was changed at its creation. `MarkKeeper` keeps that.
- The restart rule: a service that starts knows no template of a Job whose pod it sees already, as it compares no bare
  pod that it sees then.
"""

from dataclasses import replace

from jupyter_gq.backends.kubernetes.api.changes import find_changes
from jupyter_gq.backends.kubernetes.api.views import PodView, pod_view
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.domain.json_types import JsonMapping, JsonObject


class JobTemplates:
    """The pod templates of the Jobs that this process asks for. Several threads may call the methods at a time."""

    def __init__(self) -> None:
        #: By the name of the Job.
        self._templates: dict[str, JsonMapping] = {}

    def add(self, job: JsonObject) -> JsonObject:
        """Keep the template of this Job until `forget`; return the Job."""
        self._templates[job["metadata"]["name"]] = job["spec"]["template"]
        return job

    def forget(self, name: str) -> None:
        """Drop the template of the Job of this name; do nothing if there is none."""
        self._templates.pop(name, None)

    def view(self, pod: JsonMapping) -> PodView:
        """Return the kept fields of a pod's JSON.

        If the pod belongs to a Job whose template is known, the view has all labels and annotations of the template,
        also those that somebody took away or changed. `changed` names what differs from the template, and `lost_marks`
        which of our labels and annotations are among that.
        """
        seen = pod_view(pod)
        template = self._templates.get(_job_of(pod))
        if template is None:
            return seen
        asked, changed = pod_view(template), find_changes(template, pod)
        return replace(
            seen,
            labels={**seen.labels, **asked.labels},
            annotations={**seen.annotations, **asked.annotations},
            changed=tuple(changed),
            lost_marks=tuple(key for key in changed if key.startswith(names.PREFIX)),
        )


def _job_of(pod: JsonMapping) -> str:
    """Return the name of the Job that controls the pod; "" if none does."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(each["name"]) for each in owners if each.get("controller") and each.get("kind") == "Job"), "")
