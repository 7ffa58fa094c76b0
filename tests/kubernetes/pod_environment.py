"""The environment of a container, as a kubelet computes it, and the names and addresses of pods."""

import hashlib
import re

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
#: What a container gets that says nothing about its size: the node's.
_NODE_CPU, _NODE_MEMORY = 16, 64 * 2**30
_SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "m": 1e-3}


def pod_address(namespace: str, host: str) -> str:
    """The address of a pod, known before it runs: anybody may bind to what is in 127.64.0.0/10."""
    digest = hashlib.sha256(f"{namespace}/{host}".encode()).digest()
    return f"127.{64 + digest[0] % 64}.{digest[1]}.{1 + digest[2] % 254}"


def expanded(text: str, known: dict[str, str]) -> str:
    """`$(NAME)` replaced where the name is known; `$$` is a dollar."""

    def replaced(match):
        if match[1] is None:
            return "$"
        return known.get(match[1], match[0])

    return _REFERENCE.sub(replaced, text)


def with_addresses(text: str, pod) -> str:
    """Host names of the pods of the same subdomain, such as the first of a gang, replaced by their addresses."""
    subdomain, namespace = pod["spec"].get("subdomain"), pod["metadata"]["namespace"]
    if not subdomain:
        return text
    tail = rf"(?:\.{re.escape(namespace)}(?:\.svc(?:\.cluster\.local)?)?)?"
    name = rf"(?<![\w.-])([a-z0-9-]+)\.{re.escape(subdomain)}{tail}(?![\w.-])"
    return re.sub(name, lambda match: pod_address(namespace, match[1]), text)


def field_of(pod, path: str, address: str) -> str:
    """The downward API: a field of the pod as text."""
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return pod["metadata"].get(found[1], {}).get(found[2], "")
    known = {"status.podIP": address, "status.podIPs": address, "status.hostIP": "127.0.0.1"}
    if path in known:
        return known[path]
    value = pod
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


def resource_of(container, path: str, divisor: str) -> str:
    """The downward API: `limits.memory` and its like, rounded up, in units of the divisor."""
    kind, _, name = path.partition(".")
    resources = container.get("resources", {})
    asked = resources.get(kind, {}).get(name) or resources.get("limits", {}).get(name)
    amount = quantity(asked) if asked else {"cpu": _NODE_CPU, "memory": _NODE_MEMORY}.get(name, 0)
    unit = quantity(divisor) if divisor and divisor != "0" else 1
    return str(int(-(-amount // unit)))


def quantity(text: str) -> float:
    """`512Mi`, `2`, `500m` as a number."""
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text))
    return float(found[1]) * _SUFFIXES.get(found[2], 1)


def container_environment(pod, container, address: str, lookup) -> dict[str, str]:
    """Names and values in their order; `lookup(kind, name, optional)` gives the data of a ConfigMap or Secret."""
    found: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        for kind, key in (("configmaps", "configMapRef"), ("secrets", "secretRef")):
            if key in source:
                data = lookup(kind, source[key]["name"], source[key].get("optional", False))
                found |= {source.get("prefix", "") + name: value.decode() for name, value in data.items()}
    for entry in container.get("env", ()):
        value = _value(pod, container, entry, address, lookup, found)
        if value is not None:
            found[entry["name"]] = value
    return found


def _value(pod, container, entry, address, lookup, known):
    source = entry.get("valueFrom")
    if not source:
        return expanded(entry.get("value", ""), known)
    if ref := source.get("fieldRef"):
        return field_of(pod, ref["fieldPath"], address)
    if ref := source.get("resourceFieldRef"):
        return resource_of(container, ref["resource"], ref.get("divisor", ""))
    for kind, key in (("configmaps", "configMapKeyRef"), ("secrets", "secretKeyRef")):
        if ref := source.get(key):
            data = lookup(kind, ref["name"], ref.get("optional", False))
            return data[ref["key"]].decode() if ref["key"] in data else None
    raise ValueError(f"the stand-in kubelet does not know {source}")
