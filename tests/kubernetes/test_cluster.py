"""What the other tests of this folder stand on."""

import pytest
from kubernetes.client import ApiException, CoreV1Api


def test_rights_are_real_and_tokens_speak_for_their_account(control_plane, namespace_set):
    mark = control_plane.mark()
    service = CoreV1Api(control_plane.client(namespace_set.service_user))
    with pytest.raises(ApiException) as refused:
        service.list_namespaced_pod(namespace_set.train)
    assert refused.value.status == 403
    assert namespace_set.service_user in refused.value.body
    assert [r.status for r in control_plane.requests(mark, user=namespace_set.service_user)] == [403]


def test_the_api_server_comes_back_with_what_it_knew(control_plane, namespace_set):
    control_plane.stop_api()
    control_plane.start_api()
    assert control_plane.core.read_namespace(namespace_set.hub).metadata.name == namespace_set.hub
