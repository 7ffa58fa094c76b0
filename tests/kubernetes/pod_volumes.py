"""The volumes of a pod as folders of this machine, and their paths in what the pod is told.

There is no container around a process: where a pod would see `/gq/job`, the process sees a folder of its own, and each
mention of `/gq/job` in its command, arguments and environment is replaced by the path of that folder.
"""

import base64
import os
import re
from pathlib import Path

from tests.kubernetes.node_api import NodeApi, Refused
from tests.kubernetes.pod_environment import expanded, field_of

#: Host paths that are the kubelet's own: each stand-in has a folder for them.
_KUBELET = Path("/var/lib/kubelet")


class Volumes:
    """Makes the folders of one pod below `folder`; `host` holds what is the node's, `claims` what outlives pods."""

    def __init__(self, api: NodeApi, pod, address: str, *, folder: Path, host: Path, claims: Path) -> None:
        self._api, self._pod, self._address = api, pod, address
        self._folder, self._host, self._claims = folder, host, claims
        self._namespace = pod["metadata"]["namespace"]
        self._paths: dict[str, Path] = {}

    def prepare(self) -> None:
        """Raises `Refused` (404) while a ConfigMap or Secret is missing."""
        for volume in self._pod["spec"].get("volumes", ()):
            self._paths[volume["name"]] = self._made(volume)

    def translation(self, container, environment: dict[str, str]) -> dict[str, str]:
        """What each path of the container is on this machine."""
        found = {}
        for mount in container.get("volumeMounts", ()):
            path = self._paths[mount["name"]]
            part = mount.get("subPath") or expanded(mount.get("subPathExpr", ""), environment)
            if part:
                path = path / part
                if not path.exists():
                    path.mkdir(parents=True)
            found[mount["mountPath"].rstrip("/")] = str(path)
        return found

    def _made(self, volume) -> Path:
        name = volume["name"]
        if "hostPath" in volume:
            return self._host_path(Path(volume["hostPath"]["path"]), volume["hostPath"].get("type", ""))
        if claim := volume.get("persistentVolumeClaim"):
            path = self._claims / self._namespace / claim["claimName"]
        else:
            path = self._folder / "volumes" / name
        path.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            self._write(path, "configmaps", volume["configMap"], volume["configMap"]["name"])
        if "secret" in volume:
            self._write(path, "secrets", volume["secret"], volume["secret"]["secretName"])
        self._project(path, {"downwardAPI": volume["downwardAPI"]} if "downwardAPI" in volume else {})
        for source in volume.get("projected", {}).get("sources", ()):
            self._project(path, source)
        return path

    def _host_path(self, path: Path, kind: str) -> Path:
        if path.is_relative_to(_KUBELET):
            path = self._host / path.relative_to(_KUBELET)
        if kind == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        return path

    def _project(self, path: Path, source) -> None:
        if "serviceAccountToken" in source:
            self._write_token(path, source["serviceAccountToken"])
        for kind, key in (("configmaps", "configMap"), ("secrets", "secret")):
            if key in source:
                self._write(path, kind, source[key], source[key]["name"])
        for item in source.get("downwardAPI", {}).get("items", ()):
            if "fieldRef" in item:
                _put(path / item["path"], field_of(self._pod, item["fieldRef"]["fieldPath"], self._address).encode())

    def _write_token(self, path: Path, source) -> None:
        meta = self._pod["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
        spec = {"expirationSeconds": source.get("expirationSeconds", 3600), "boundObjectRef": bound}
        spec["audiences"] = [source["audience"]] if source.get("audience") else []
        account = self._pod["spec"].get("serviceAccountName") or "default"
        answer = self._api.insist(
            "POST", f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token", {"spec": spec}
        )
        _put(path / source["path"], answer["status"]["token"].encode())

    def _write(self, path: Path, kind: str, source, name: str) -> None:
        data = self.lookup(kind, name, source.get("optional", False))
        items = source.get("items")
        names = {item["key"]: item["path"] for item in items} if items else {key: key for key in data}
        for key, file in names.items():
            _put(path / file, data[key])

    def lookup(self, kind: str, name: str, optional: bool = False) -> dict[str, bytes]:
        """The data of a ConfigMap or Secret of the pod's namespace."""
        try:
            found = self._api.insist("GET", f"/api/v1/namespaces/{self._namespace}/{kind}/{name}")
        except Refused as refused:
            if optional and refused.status == 404:
                return {}
            raise
        if kind == "secrets":
            return {key: base64.b64decode(value) for key, value in found.get("data", {}).items()}
        plain = {key: value.encode() for key, value in found.get("data", {}).items()}
        return plain | {key: base64.b64decode(value) for key, value in found.get("binaryData", {}).items()}


def _put(path: Path, content: bytes) -> None:
    """Whole or not at all: who reads it while it is renewed sees the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    os.replace(new, path)


def translated(text: str, translation: dict[str, str]) -> str:
    """The paths in this text as they are on this machine; the longest that fits counts."""
    if not translation:
        return text
    paths = sorted(translation, key=len, reverse=True)
    # In a URL of a file the path comes after `:///`.
    pattern = rf"(?:(?<![\w/.-])|(?<=:///))({'|'.join(re.escape(path) for path in paths)})(?![\w.-])"
    return re.sub(pattern, lambda match: translation[match[1]], text)
