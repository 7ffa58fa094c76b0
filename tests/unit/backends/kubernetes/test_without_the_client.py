"""On one machine nobody needs the Kubernetes client: it is asked for only where it is used."""

import subprocess
import sys

_PROGRAM = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "kubernetes":
            raise ImportError("no kubernetes")
sys.meta_path.insert(0, Missing())
import jupyter_gq.service
from jupyter_gq.backends.kubernetes import KubernetesBackend
try:
    KubernetesBackend().open_cluster()
except Exception as error:
    print(error)
"""


def test_the_service_starts_without_it_and_says_what_is_missing():
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == (
        "The Python package kubernetes is missing. Install jupyter-gq[kubernetes] where the service runs."
    ), done.stderr
