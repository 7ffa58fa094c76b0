"""A node affinity that allows one node: the same for the pods of notebooks and of jobs. Pure.

Rules
-----
1. The terms of a node affinity are alternatives: the node goes into each of them. A pod can then run on that node
   where it could before, and nowhere else.
2. A term that matches nothing stays as it is: with our field in it, it would match.
"""

from jupyter_gq.domain.json_types import JsonMapping, JsonObject

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pinned_affinity(affinity: JsonObject | None, node: str) -> JsonObject:
    """Return a node affinity that allows this node only and keeps everything else that `affinity` requires."""
    affinity = affinity or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    here = _on_node(node)
    pinned_terms = [_with_field(term, here) for term in terms] or [{"matchFields": [here]}]
    return {**affinity, _REQUIRED: {"nodeSelectorTerms": pinned_terms}}


def is_pinned(spec: JsonMapping, node: str) -> bool:
    """Return True if the spec of a pod lets the pod run on this node only, and False if it allows any other node."""
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node)
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    terms = [term for term in required.get("nodeSelectorTerms") or () if _matches_something(term)]
    return bool(terms) and all(_on_node(node) in (term.get("matchFields") or ()) for term in terms)


def _on_node(node: str) -> JsonObject:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


def _matches_something(term: JsonMapping) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))


def _with_field(term: JsonObject, here: JsonObject) -> JsonObject:
    if not _matches_something(term):
        return term
    return {**term, "matchFields": [*(term.get("matchFields") or []), here]}
