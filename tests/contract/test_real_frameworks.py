"""The memory caps of a share reach the frameworks themselves, where `make test-caps` or `test-torch` installed them.

There is no GPU here: what each framework would tell its GPUs is read from the function that it reads its settings with.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jupyter_gq.devices.limits import share_environment
from jupyter_gq.domain.amount import MiB, MilliGpu
from jupyter_gq.domain.cluster import Device
from jupyter_gq.notebook import kernel_startup
from tests.patience import PATIENCE, scaled

ROOT = Path(__file__).parents[2]
SHARE = share_environment(
    [Device(id="GPU-1", index=0, model="A100-40GB", memory=MiB(40_960), pool="build")], MilliGpu(250)
)
FRACTION = float(SHARE["JUPYTER_GQ_MEMORY_FRACTION"])
USABLE = int(SHARE["CUPY_GPU_MEMORY_LIMIT"])

ENVIRONMENTS = {
    "jax": ".venv-caps-jax",
    "tensorflow-cpu": ".venv-caps-tensorflow-cpu",
    "cupy-cuda12x": ".venv-caps-cupy-cuda12x",
    "torch": ".venv-torch",
}

NAMES = {"jax": "JAX", "tensorflow-cpu": "TensorFlow", "cupy-cuda12x": "CuPy"}

#: What a kernel does before the first cell of the user.
BEGINS = f"""
import importlib.util, json, os
spec = importlib.util.spec_from_file_location("kernel_startup", {kernel_startup.__file__!r})
startup = importlib.util.module_from_spec(spec)
spec.loader.exec_module(startup)
startup.apply_caps(os.environ)
"""
JAX = """
import jax
from jaxlib import xla_client
first = xla_client.generate_pjrt_gpu_plugin_options()["memory_fraction"]
os.environ["XLA_CLIENT_MEM_FRACTION"] = ".9"  # a cell asks for more
print(json.dumps([first, xla_client.generate_pjrt_gpu_plugin_options()["memory_fraction"]]))
"""
#: A GPU is added to those that TensorFlow knows, since there is none.
TENSORFLOW = """
import tensorflow
from tensorflow.python.eager import context
tensorflow.config.list_physical_devices()
gpu = context.PhysicalDevice(name="/physical_device:GPU:0", device_type="GPU")
context.context()._physical_devices.append(gpu)
startup.cap_imported_tensorflow(tensorflow, os.environ)
(found,) = tensorflow.config.get_logical_device_configuration(gpu)
print(json.dumps(found.memory_limit))
"""
CUPY = """
from cupy.cuda import memory
print(json.dumps(memory._parse_limit_string()))
"""
#: What PyTorch offers: before 2.10 the cap is set by these functions, and later by the variable.
TORCH = """
import inspect, torch
least = inspect.signature(torch.cuda.set_per_process_memory_fraction).bind(0.5).arguments
print(json.dumps([os.environ["PYTORCH_ALLOC_CONF"], list(least), callable(torch.cuda._lazy_call)]))
"""


def ask(package: str, code: str, **theirs: str) -> Any:
    """Run `code` as a kernel with a quarter of a GPU would, in the environment of that package; return what it tells.

    `theirs` are variables that the user has set.
    """
    python = ROOT / ENVIRONMENTS[package] / "bin/python"
    if not python.exists():
        pytest.skip(f"{package} is in no environment {ENVIRONMENTS[package]}, which a `make` target makes")
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    environment |= SHARE | theirs
    done = subprocess.run(
        [python, "-c", BEGINS + code], env=environment, capture_output=True, text=True, timeout=scaled(PATIENCE)
    )
    assert done.returncode == 0, done.stderr
    assert "could not be set" not in done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_jax_gives_its_gpus_the_fraction_of_the_share_also_if_a_cell_asks_for_more():
    assert ask("jax", JAX) == [FRACTION, FRACTION]


@pytest.mark.parametrize("name", ["XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"])
def test_jax_keeps_a_smaller_fraction_of_the_user_under_either_name(name):
    assert ask("jax", JAX, **{name: ".1"})[0] == 0.1


def test_tensorflow_limits_the_memory_of_each_gpu():
    assert ask("tensorflow-cpu", TENSORFLOW) == USABLE // 2**20


def test_cupy_reads_the_limit_of_the_share_in_bytes():
    assert ask("cupy-cuda12x", CUPY) == {"size": USABLE, "fraction": None}


def test_cupy_reads_the_limit_in_per_cent_that_replaces_a_larger_one_of_the_user():
    found = ask("cupy-cuda12x", CUPY, CUPY_GPU_MEMORY_LIMIT="90%")
    assert found == {"size": None, "fraction": pytest.approx(FRACTION)}


def test_cupy_keeps_a_smaller_limit_of_the_user():
    assert ask("cupy-cuda12x", CUPY, CUPY_GPU_MEMORY_LIMIT="1024") == {"size": 1024, "fraction": None}


def test_pytorch_has_the_functions_of_the_cap_and_gets_it_beside_the_settings_of_the_user():
    """Whether its allocator keeps the cap is tried with a GPU only."""
    settings, arguments, has_lazy_call = ask("torch", TORCH, PYTORCH_ALLOC_CONF="expandable_segments:True")
    assert settings == f"expandable_segments:True,per_process_memory_fraction:{FRACTION:g}"
    assert (arguments, has_lazy_call) == (["fraction"], True)


@pytest.mark.parametrize("name", NAMES)
def test_release_that_is_installed_is_the_one_that_the_docs_name(name):
    (version,) = re.findall(rf"^VERSION_{name} := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"{NAMES[name]} {version}" in (ROOT / "docs/explanation/share-limits.md").read_text()
