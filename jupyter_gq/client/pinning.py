"""A node affinity that allows one node: the same for the pods of notebooks and of jobs. Pure.

Rules
-----
1. The terms of a node affinity are alternatives: the node goes into each of them. A pod can then run on that node
   where it could before, and nowhere else.
2. A term that matches nothing stays as it is: with our field in it, it would match.
"""

from jupyter_gq.domain.json_types import JsonObject

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pinned_affinity(affinity: JsonObject | None, node: str) -> JsonObject:
    """Return a node affinity that allows this node only and keeps everything else that `affinity` requires."""
    affinity = affinity or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    pinned_terms = [_with_field(term, here) for term in terms] or [{"matchFields": [here]}]
    return {**affinity, _REQUIRED: {"nodeSelectorTerms": pinned_terms}}


def _with_field(term: JsonObject, here: JsonObject) -> JsonObject:
    if not term.get("matchExpressions") and not term.get("matchFields"):
        return term
    return {**term, "matchFields": [*(term.get("matchFields") or []), here]}
