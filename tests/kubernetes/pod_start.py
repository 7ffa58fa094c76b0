"""What has to be there before the process of a pod starts: its volumes, its environment, its command."""

from pathlib import Path

from tests.kubernetes.pod_environment import container_environment, expanded, with_addresses
from tests.kubernetes.pod_runtime import Container
from tests.kubernetes.pod_volumes import Volumes, translated

#: Names of the containers that do the work; in other pods it is the first.
_MAIN = ("runner", "notebook", "hold")


def main_of(pod):
    """The spec of the container that does the work, wherever sidecars stand."""
    containers = {each["name"]: each for each in pod["spec"]["containers"]}
    return next((containers[name] for name in _MAIN if name in containers), pod["spec"]["containers"][0])


def sidecars_of(pod):
    """The specs of the containers that run beside it: those of the list, then the native ones."""
    main = main_of(pod)["name"]
    native = [each for each in pod["spec"].get("initContainers", ()) if is_native(each)]
    return [*(each for each in pod["spec"]["containers"] if each["name"] != main), *native]


def is_native(spec) -> bool:
    """Whether an init container is a sidecar."""
    return spec.get("restartPolicy") == "Always"


def spec_of(pod, name: str):
    """The spec of the container of that name."""
    every = (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ()))
    return next(each for each in every if each["name"] == name)


def prepare(kubelet, pod, container: Container) -> None:
    """Complete the container. Raises `Refused` while a ConfigMap, a Secret or the account is missing."""
    main, runtime = spec_of(pod, container.name), kubelet.runtime
    volumes = Volumes(
        kubelet.api, pod, container.address, folder=container.pod_folder, host=kubelet.folder, claims=kubelet.claims
    )
    volumes.prepare()
    own = container_environment(pod, main, container.address, volumes.lookup)
    paths = volumes.translation(main, own)
    paths[main.get("terminationMessagePath", "/dev/termination-log")] = str(container.termination_log)

    def local(text):
        return with_addresses(translated(text, paths), pod)

    command = [local(expanded(word, own)) for word in [*main.get("command", ()), *main.get("args", ())]]
    # An image without a command of its own is one that waits, such as that of a reservation.
    command = command or ["sleep", "infinity"]
    container.command = [runtime.found(command[0], main["image"]), *command[1:]]
    container.environment = runtime.environment(container, main["image"])
    if given := container.given(kubelet.devices.resource):
        # The device plugin's word; what the pod says of the same name wins, as in a kubelet.
        container.environment["NVIDIA_VISIBLE_DEVICES"] = ",".join(given)
    container.environment |= kubelet.access(paths) | {name: local(value) for name, value in own.items()}
    if "workingDir" in main:
        container.workdir = _folder_for(local(main["workingDir"]), kubelet, container)


def _folder_for(path: str, kubelet, container: Container) -> Path:
    """A path of the image is a folder of the pod; one of a volume is already on this machine."""
    if Path(path).is_relative_to(kubelet.folder) or Path(path).is_relative_to(kubelet.claims):
        return Path(path)
    folder = container.folder / "root" / path.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
