"""What only a cluster needs is not needed on one machine."""

import subprocess
import sys

_WITHOUT = "import sys; sys.modules.update(dict.fromkeys({missing!r})); "
_MISSING = ["kubernetes", "kubernetes_asyncio", "kubespawner", "urllib3", "grpc", "psycopg"]


def run(code):
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT.format(missing=_MISSING) + code], capture_output=True, text=True
    )


def test_the_service_and_the_spawners_of_one_machine_start_without_a_kubernetes_client():
    done = run(
        "import jupyter_gq.service, jupyter_gq.hub.local, jupyter_gq.hub.config, jupyter_gq.demo, jupyter_gq.app"
    )
    assert done.returncode == 0, done.stderr


def test_on_a_cluster_a_missing_client_is_told_with_what_to_install(tmp_path):
    config = tmp_path / "jupyterhub_config.py"
    config.write_text("c.SchedulerService.backend = 'kubernetes'\nc.KubernetesBackend.hub_namespace = 'hub'\n")
    code = "from jupyter_gq.service import SchedulerService; SchedulerService.launch_instance(['--config', {!r}])"
    done = run(code.format(str(config)))
    assert done.returncode == 1
    told = "The Python package kubernetes is missing. Install jupyter-gq[kubernetes] where the service runs."
    assert told in done.stderr
