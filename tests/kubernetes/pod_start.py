"""What has to be there before the process of a pod starts: its volumes, its environment, its command."""

from pathlib import Path

from tests.kubernetes.pod_environment import container_environment, expanded, with_addresses
from tests.kubernetes.pod_runtime import Container
from tests.kubernetes.pod_volumes import Volumes, translated


def prepare(kubelet, pod, container: Container) -> None:
    """Complete the container. Raises `Refused` while a ConfigMap, a Secret or the account is missing."""
    main, runtime = pod["spec"]["containers"][0], kubelet.runtime
    volumes = Volumes(
        kubelet.api, pod, container.address, folder=container.folder, host=kubelet.folder, claims=kubelet.claims
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
    container.environment = runtime.environment(container.uid, main["image"], container.folder)
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
