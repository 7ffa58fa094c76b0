"""Objects sent to the API server as they are written, with what a client library might leave out or mend."""

import httpx
import yaml

from tests.kubernetes.control_plane import ADMIN, ControlPlane
from tests.patience import scaled

#: Kinds that belong to no namespace.
_OF_CLUSTER = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "Namespace",
    "PriorityClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


def path_of(found) -> str:
    """The address of the list that this object belongs into."""
    version, kind = found["apiVersion"], found["kind"]
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    plural = kind.lower() + ("es" if kind.endswith("s") else "s")
    plural = plural[:-2] + "ies" if plural.endswith("ys") else plural
    return f"{root}/{plural}" if kind in _OF_CLUSTER else f"{root}/namespaces/{found['metadata']['namespace']}/{plural}"


class Raw:
    """Sends for one user, or as an administrator who speaks for somebody (`as_user`)."""

    def __init__(self, plane: ControlPlane, user: str = ADMIN) -> None:
        settings = plane.config_for(user)
        token = settings.api_key["authorization"]
        self._http = httpx.Client(
            base_url=plane.url, verify=str(plane.ca_file), headers={"Authorization": token}, timeout=scaled(30)
        )

    def close(self) -> None:
        self._http.close()

    def create(self, found, *, as_user: str = "", **query) -> httpx.Response:
        return self._http.post(path_of(found), json=found, params=query, headers=_speaking_for(as_user))

    def add_container(self, pod, container, *, as_user: str = "") -> httpx.Response:
        """As `kubectl debug` does; tried, not kept."""
        patch = {"spec": {"ephemeralContainers": [container]}}
        headers = {"Content-Type": "application/strategic-merge-patch+json", **_speaking_for(as_user)}
        path = f"{self._address(pod)}/ephemeralcontainers"
        return self._http.patch(path, json=patch, params={"dryRun": "All"}, headers=headers)

    def dry_run(self, found) -> httpx.Response:
        """Applied to the strictest rules of the API server and not kept; also where there is one of that name."""
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        done = self.create(found, **query)
        if done.status_code != 409:
            return done
        headers = {"Content-Type": "application/apply-patch+yaml"}
        query |= {"fieldManager": "chart", "force": "true"}
        return self._http.patch(self._address(found), content=yaml.safe_dump(found), params=query, headers=headers)

    def apply(self, found) -> None:
        """Kept; raises for an object that is refused."""
        headers = {"Content-Type": "application/apply-patch+yaml"}
        query = {"fieldManager": "chart", "force": "true", "fieldValidation": "Strict"}
        done = self._http.patch(self._address(found), content=yaml.safe_dump(found), params=query, headers=headers)
        assert done.is_success, done.text

    def delete(self, found) -> None:
        """No error if it is gone."""
        done = self._http.delete(self._address(found))
        assert done.is_success or done.status_code == 404, done.text

    def get(self, kind_path: str) -> httpx.Response:
        return self._http.get(kind_path)

    def ask(self, method: str, path: str, body=None) -> httpx.Response:
        """Whatever comes of it."""
        return self._http.request(method, path, json=body)

    def may(self, user: str, call, namespace: str, name: str = "") -> bool:
        """Whether this user may do that, as the API server's authorisers say."""
        resource, _, sub = call.resource.partition("/")
        asked = {"verb": call.verb, "group": call.group, "resource": resource, "namespace": namespace}
        asked |= {"subresource": sub} if sub else {}
        asked |= {"name": name} if name else {}
        groups = ["system:serviceaccounts", "system:authenticated"]
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": asked},
        }
        done = self._http.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=review)
        assert done.is_success, done.text
        return done.json()["status"]["allowed"]

    @staticmethod
    def _address(found) -> str:
        return f"{path_of(found)}/{found['metadata']['name']}"


def _speaking_for(user: str) -> dict[str, str]:
    return {"Impersonate-User": user} if user else {}
