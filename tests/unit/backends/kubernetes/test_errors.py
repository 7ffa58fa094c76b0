"""What the API server answers becomes a sentence that says whose fault it is."""

import json

import pytest

from jupyter_gq.backends.kubernetes.api.errors import Exists, Expired, Missing, Refused, Unreachable, error_of
from jupyter_gq.domain.errors import BackendError


def answer(status, message="told", reason=""):
    return error_of(status, json.dumps({"message": message, "reason": reason}).encode(), "create the pod p")


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (403, "Forbidden", Refused),
        (422, "Invalid", Refused),
        (400, "BadRequest", Refused),
        (404, "NotFound", Missing),
        (409, "AlreadyExists", Exists),
        (409, "Conflict", Unreachable),
        (410, "Expired", Expired),
        (429, "TooManyRequests", Unreachable),
        (500, "InternalError", Unreachable),
        (503, "ServiceUnavailable", Unreachable),
        (504, "Timeout", Unreachable),
    ],
)
def test_what_may_go_well_the_next_time_is_told_from_what_will_not(status, reason, kind):
    error = answer(status, reason=reason)
    assert type(error) is kind
    assert isinstance(error, BackendError)


def test_a_refusal_keeps_its_own_text():
    error = answer(403, 'pods "p" is forbidden: exceeded quota: two, requested: pods=1, used: pods=2, limited: pods=2')
    assert "exceeded quota: two, requested: pods=1" in error.sentence


def test_a_missing_right_is_named_with_who_lacks_it_and_where():
    told = (
        'pods is forbidden: User "system:serviceaccount:hub:gq-service" cannot create resource "pods" in API group "" '
        'in the namespace "train"'
    )
    sentence = answer(403, told).sentence
    assert "system:serviceaccount:hub:gq-service lacks the right to create pods" in sentence
    assert 'in the namespace "train"' in sentence
    assert (
        "If the namespace train was deleted, its roles are gone too: `helm upgrade` makes it and them again."
        in sentence
    )


def test_a_right_in_the_whole_cluster_names_no_namespace():
    told = 'nodes is forbidden: User "gq-service" cannot list resource "nodes" in API group "" at the cluster scope'
    sentence = answer(403, told).sentence
    assert "lacks the right to list nodes" in sentence
    assert "namespace" not in sentence


def test_an_answer_that_is_no_status_is_quoted():
    assert "bad gateway" in error_of(502, b"<html>bad gateway", "list the pods").sentence
    assert "HTTP status 500" in error_of(500, b"", "list the pods").sentence
