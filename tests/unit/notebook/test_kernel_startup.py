"""Caps reach the frameworks, and nothing else changes. The frameworks are small fakes in a folder of their own."""

import ast
import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from jupyter_gq.client.environment.kernel import STARTUP_FILE, prepare
from jupyter_gq.devices.limits import share_environment
from jupyter_gq.domain.amount import MiB, MilliGpu
from jupyter_gq.domain.cluster import Device
from jupyter_gq.notebook.kernel_startup import cap_cupy, cap_jax, cap_torch_by_key, usable_bytes

CAPPED = {"JUPYTER_GQ_MEMORY_FRACTION": "0.2458", "GQ_GPU_MEMORY_BYTES": str(10_240 * 2**20)}
NEW_TORCH, OLD_TORCH = "2.10.0+cu128", "2.9.1+cu128"


def fake_torch(folder: Path, version: str) -> None:
    package = folder / "torch"
    package.mkdir()
    (package / "version.py").write_text(f"__all__ = ['__version__']\n__version__ = '{version}'\ncuda = '12.8'\n")
    (package / "__init__.py").write_text(
        textwrap.dedent("""
        import os
        from .version import __version__
        SEEN = os.environ.get("PYTORCH_ALLOC_CONF")
        OTHER = os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
        class cuda:
            queued, fraction = [], None
            _lazy_call = staticmethod(queued.append)
            @classmethod
            def set_per_process_memory_fraction(cls, fraction): cls.fraction = fraction
        """)
    )


def fake_jax(folder: Path, version: str) -> None:
    """Write a jaxlib that reads its fraction, when a GPU is first used, as the real one of this version does."""
    package = folder / "jaxlib"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "version.py").write_text(f"_version = '{version}'\n__version__ = _version\n")
    knows_both = version not in {"0.4.13", "0.4.20", "0.4.30"}
    (package / "xla_client.py").write_text(
        textwrap.dedent(f"""
        import os
        def generate_pjrt_gpu_plugin_options():
            old = os.getenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "")
            new = os.getenv("XLA_CLIENT_MEM_FRACTION", "") if {knows_both} else ""
            if old and new: raise ValueError("both")
            return {{"memory_fraction": float(new or old or "0.75")}}
        """)
    )


def fake_tensorflow(folder: Path, *, broken: bool = False) -> None:
    package = folder / "tensorflow"
    package.mkdir()
    (package / "__init__.py").write_text(
        textwrap.dedent(f"""
        class LogicalDeviceConfiguration:
            def __init__(self, memory_limit): self.memory_limit = memory_limit
        class config:
            set = {{}}
            LogicalDeviceConfiguration = LogicalDeviceConfiguration
            def list_physical_devices(kind): return ["GPU:0"] if kind == "GPU" else []
            def set_logical_device_configuration(device, configuration):
                if {broken}: raise RuntimeError("already initialised")
                config.set[device] = configuration[0].memory_limit
        """)
    )


def in_kernel(folder: Path, code: str, env: dict[str, str], before: str = "") -> str:
    """Run code as a kernel would after our start-up; return what it printed."""
    script = (
        f"import sys, os; sys.path[:0] = [{str(folder)!r}, {str(STARTUP_FILE.parent)!r}]\n{before}\n"
        f"import kernel_startup\nkernel_startup.apply_caps(os.environ)\n{code}"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", script], env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def test_new_torch_is_capped_by_its_key(tmp_path: Path) -> None:
    fake_torch(tmp_path, NEW_TORCH)
    said = in_kernel(tmp_path, "import torch; print(torch.SEEN, torch.cuda.queued)", CAPPED)
    assert said.strip() == "per_process_memory_fraction:0.2458 []"


@pytest.mark.parametrize("text", [b"# \xe9\n__version__ = '1.0'\n", b"__version__ = '" + b"9" * 10_000 + b"'\n"])
def test_a_version_that_cannot_be_read_keeps_no_kernel_from_starting(tmp_path: Path, text: bytes) -> None:
    fake_torch(tmp_path, OLD_TORCH)
    (tmp_path / "torch" / "version.py").write_bytes(text)
    assert in_kernel(tmp_path, "import os; print('started')", CAPPED).strip() == "started"


def test_new_torch_in_a_child_process_is_capped_too(tmp_path: Path) -> None:
    fake_torch(tmp_path, NEW_TORCH)
    assert "0.2458" in in_kernel(tmp_path, "print(os.environ['PYTORCH_ALLOC_CONF'])", CAPPED)


def test_old_torch_is_capped_when_it_first_uses_cuda(tmp_path: Path) -> None:
    """It would reject the key, and a cap set at once would cost a CUDA context."""
    fake_torch(tmp_path, OLD_TORCH)
    code = (
        "import torch\nprint(torch.SEEN, torch.cuda.fraction)\n[call() for call in torch.cuda.queued]\n"
        "print(torch.cuda.fraction, type(torch.__spec__.loader).__name__, type(torch.__loader__).__name__)"
    )
    assert in_kernel(tmp_path, code, CAPPED).split("\n")[:2] == [
        "None None",
        "0.2458 SourceFileLoader SourceFileLoader",
    ]


def test_torch_installed_after_the_kernel_started(tmp_path: Path) -> None:
    later = tmp_path / "later"
    later.mkdir()
    fake_torch(later, NEW_TORCH)
    said = in_kernel(tmp_path, f"sys.path.insert(0, {str(later)!r}); import torch; print(torch.SEEN)", CAPPED)
    assert said.strip() == "per_process_memory_fraction:0.2458"


def test_tensorflow_gets_a_memory_limit(tmp_path: Path) -> None:
    fake_tensorflow(tmp_path)
    assert in_kernel(tmp_path, "import tensorflow as tf; print(tf.config.set)", CAPPED).strip() == "{'GPU:0': 9640}"


def test_a_cap_that_cannot_be_set_says_so_and_the_import_works(tmp_path: Path) -> None:
    fake_tensorflow(tmp_path, broken=True)
    said = in_kernel(tmp_path, "import tensorflow; print('imported')", CAPPED)
    assert "imported" in said
    assert "the memory cap of tensorflow could not be set: already initialised" in said


@pytest.mark.parametrize("env", [{}, {"JUPYTER_GQ_MEMORY_FRACTION": "1"}, {"JUPYTER_GQ_MEMORY_FRACTION": "x"}])
def test_without_a_share_nothing_is_touched(tmp_path: Path, env: dict[str, str]) -> None:
    fake_torch(tmp_path, NEW_TORCH)
    code = "import torch; print(torch.SEEN, len(sys.meta_path) == before)"
    assert in_kernel(tmp_path, code, env, "before = len(sys.meta_path)").strip() == "None True"


def test_a_missing_framework_is_still_missing(tmp_path: Path) -> None:
    code = "try:\n    import torch\nexcept ModuleNotFoundError as error:\n    print(error)"
    assert in_kernel(tmp_path, code, CAPPED).strip() == "No module named 'torch'"


@pytest.mark.parametrize(
    ("theirs", "merged"),
    [
        ({}, {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.25"}),
        (
            {"PYTORCH_ALLOC_CONF": "expandable_segments:True,roundup_power2_divisions:[256:1,512:2]"},
            {
                "PYTORCH_ALLOC_CONF": "expandable_segments:True,roundup_power2_divisions:[256:1,512:2],"
                "per_process_memory_fraction:0.25"
            },
        ),
        (
            {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
            {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,per_process_memory_fraction:0.25"},
        ),
        (
            {"PYTORCH_ALLOC_CONF": "backend:native", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
            dict.fromkeys(
                ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"],
                "backend:native,expandable_segments:True,per_process_memory_fraction:0.25",
            ),
        ),
        (
            {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.1"},
            {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.1"},
        ),
        (
            {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.9"},
            {"PYTORCH_ALLOC_CONF": "per_process_memory_fraction:0.25"},
        ),
    ],
)
def test_the_users_allocator_settings_stay(theirs: dict[str, str], merged: dict[str, str]) -> None:
    """A smaller cap of the user's own stays as well; a larger one does not."""
    environ = {"JUPYTER_GQ_MEMORY_FRACTION": "0.25", **theirs}
    cap_torch_by_key(environ)
    assert {name: value for name, value in environ.items() if name.startswith("PYTORCH")} == merged
    before = dict(environ)
    cap_torch_by_key(environ)
    assert environ == before


@pytest.mark.parametrize(
    ("theirs", "merged"),
    [
        ({}, {"XLA_CLIENT_MEM_FRACTION": "0.2458"}),
        ({"XLA_CLIENT_MEM_FRACTION": ".9"}, {"XLA_CLIENT_MEM_FRACTION": "0.2458"}),
        ({"XLA_CLIENT_MEM_FRACTION": ".1"}, {"XLA_CLIENT_MEM_FRACTION": ".1"}),
        ({"XLA_CLIENT_MEM_FRACTION": "all"}, {"XLA_CLIENT_MEM_FRACTION": "0.2458"}),
        ({"XLA_PYTHON_CLIENT_MEM_FRACTION": ".9"}, {"XLA_CLIENT_MEM_FRACTION": "0.2458"}),
        ({"XLA_PYTHON_CLIENT_MEM_FRACTION": ".1"}, {"XLA_CLIENT_MEM_FRACTION": ".1"}),
        (
            {"XLA_CLIENT_MEM_FRACTION": "0.2458", "XLA_PYTHON_CLIENT_MEM_FRACTION": ".1"},
            {"XLA_CLIENT_MEM_FRACTION": ".1"},
        ),
    ],
)
def test_the_users_fraction_for_jax_stays_if_it_is_smaller(theirs: dict[str, str], merged: dict[str, str]) -> None:
    environ = {**CAPPED, **theirs}
    cap_jax(environ)
    assert {name: value for name, value in environ.items() if name.startswith("XLA")} == merged


@pytest.mark.parametrize(
    ("theirs", "kept"),
    [
        ("", "24.58%"),
        ("20%", "20%"),
        ("80%", "24.58%"),
        (str(9640 * 2**20), str(9640 * 2**20)),
        (str(9641 * 2**20), "24.58%"),
        ("0", "24.58%"),
    ],
)
def test_the_users_limit_for_cupy_stays_if_it_is_smaller(theirs: str, kept: str) -> None:
    """0 means no limit to CuPy."""
    environ = {**CAPPED, "CUPY_GPU_MEMORY_LIMIT": theirs}
    cap_cupy(environ)
    assert environ["CUPY_GPU_MEMORY_LIMIT"] == kept


def test_a_limit_that_is_no_number_is_told_and_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    environ = {**CAPPED, "XLA_CLIENT_MEM_FRACTION": "tenth", "CUPY_GPU_MEMORY_LIMIT": "1 GB"}
    cap_jax(environ)
    cap_cupy(environ)
    assert (environ["XLA_CLIENT_MEM_FRACTION"], environ["CUPY_GPU_MEMORY_LIMIT"]) == ("0.2458", "24.58%")
    said = "jupyter-gq: {} is no number, so the limit of the share is used.\n"
    told = [said.format(each) for each in ("XLA_CLIENT_MEM_FRACTION='tenth'", "CUPY_GPU_MEMORY_LIMIT='1 GB'")]
    assert capsys.readouterr().err == "".join(told)


@pytest.mark.parametrize("version", ["0.4.30", "0.4.33", "0.10.2"])
@pytest.mark.parametrize("name", ["XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"])
@pytest.mark.parametrize(("theirs", "kept"), [(".9", "0.2458"), (".1", "0.1")])
def test_jax_finds_one_fraction_of_the_name_that_its_version_knows(
    tmp_path: Path, version: str, name: str, theirs: str, kept: str
) -> None:
    """A cell may set either variable, also after the import: JAX reads them when it first uses a GPU."""
    fake_jax(tmp_path, version)
    read = "print(xla_client.generate_pjrt_gpu_plugin_options())"
    code = f"from jaxlib import xla_client\n{read}\nos.environ[{name!r}] = {theirs!r}\n{read}"
    environ = {**CAPPED, "XLA_CLIENT_MEM_FRACTION": "0.2458"}  # as the environment of the share has it
    said = in_kernel(tmp_path, code, environ)
    assert said.split("\n")[:2] == ["{'memory_fraction': 0.2458}", f"{{'memory_fraction': {kept}}}"]


@pytest.mark.parametrize(("version", "left"), [("0.4.30", "XLA_PYTHON_CLIENT"), ("0.10.2", "XLA_CLIENT")])
def test_a_fraction_that_a_cell_sets_before_the_import_is_left_under_one_name(
    tmp_path: Path, version: str, left: str
) -> None:
    """A child process gets the variables too, and a JAX in it refuses both together."""
    fake_jax(tmp_path, version)
    (tmp_path / "jax.py").touch()
    code = (
        "os.environ['XLA_PYTHON_CLIENT_MEM_FRACTION'] = '0.1'\nimport jax\n"
        "print({name: value for name, value in os.environ.items() if name.endswith('MEM_FRACTION')})"
    )
    said = in_kernel(tmp_path, code, {**CAPPED, "XLA_CLIENT_MEM_FRACTION": "0.2458"})
    assert said.strip() == str({f"{left}_MEM_FRACTION": "0.1"})


def test_a_jax_that_is_given_the_visible_devices_is_capped(tmp_path: Path) -> None:
    """As JAX 0.4.20 calls it."""
    fake_jax(tmp_path, "0.4.20")
    module = tmp_path / "jaxlib" / "xla_client.py"
    module.write_text(module.read_text().replace("_options():", "_options(visible_devices='all'):"))
    read = "print(xla_client.generate_pjrt_gpu_plugin_options(visible_devices='0'))"
    said = in_kernel(tmp_path, f"from jaxlib import xla_client\n{read}", CAPPED)
    assert said.split("\n")[0] == "{'memory_fraction': 0.2458}"


def test_a_jax_without_the_function_that_reads_options_says_nothing(tmp_path: Path) -> None:
    fake_jax(tmp_path, "0.4.13")
    (tmp_path / "jaxlib" / "xla_client.py").write_text("made = 1\n")
    code = "from jaxlib import xla_client\nprint(xla_client.made, os.environ['XLA_PYTHON_CLIENT_MEM_FRACTION'])"
    assert in_kernel(tmp_path, code, CAPPED).strip() == "1 0.2458"


def test_allocator_settings_of_a_cell_reach_torch_under_either_name(tmp_path: Path) -> None:
    fake_torch(tmp_path, NEW_TORCH)
    code = "os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'\n"
    said = in_kernel(tmp_path, f"{code}import torch; print(torch.SEEN, torch.OTHER)", CAPPED)
    assert said.split() == ["expandable_segments:True,per_process_memory_fraction:0.2458"] * 2


def test_jax_and_cupy_are_capped_in_a_kernel(tmp_path: Path) -> None:
    code = "print(os.environ['XLA_CLIENT_MEM_FRACTION'], os.environ['CUPY_GPU_MEMORY_LIMIT'])"
    theirs = {"XLA_CLIENT_MEM_FRACTION": ".95", "CUPY_GPU_MEMORY_LIMIT": "90%"}
    assert in_kernel(tmp_path, code, {**CAPPED, **theirs}).strip() == "0.2458 24.58%"


@pytest.mark.parametrize("quota", [256, 1000, 10_240])
def test_kernel_leaves_the_same_room_for_a_context_as_the_share(quota: int) -> None:
    device = Device(id="GPU-1", index=0, model="m", memory=MiB(2 * quota), pool="p")
    environ = share_environment([device], MilliGpu(500))
    assert str(usable_bytes(environ)) == environ["CUPY_GPU_MEMORY_LIMIT"]


@pytest.mark.parametrize(
    ("argv", "prepared"),
    [
        (
            ["python", "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "x"],
            ["python", "-Xfrozen_modules=off", str(STARTUP_FILE), "-f", "x"],
        ),
        (
            ["conda", "run", "-n", "e", "python", "-m", "ipykernel", "-f", "x"],
            ["conda", "run", "-n", "e", "python", str(STARTUP_FILE), "-f", "x"],
        ),
        (["R", "--slave", "-e", "IRkernel::main()"], ["R", "--slave", "-e", "IRkernel::main()"]),
        (["python", "-m", "bash_kernel", "-f", "x"], ["python", "-m", "bash_kernel", "-f", "x"]),
        (["python", "-m"], ["python", "-m"]),
        (
            ["/usr/bin/docker", "run", "image", "python", "-m", "ipykernel_launcher", "-f", "x"],
            ["/usr/bin/docker", "run", "image", "python", "-m", "ipykernel_launcher", "-f", "x"],
        ),
    ],
)
def test_only_ipykernels_own_launcher_is_replaced(argv: list[str], prepared: list[str]) -> None:
    env = {"A": "b"}
    assert prepare(argv, env) == (prepared, env)


@pytest.mark.parametrize("file", ["../__init__.py", *sorted(file.name for file in STARTUP_FILE.parent.glob("*.py"))])
def test_kernels_of_older_pythons_can_read_what_runs_in_them(file: str) -> None:
    ast.parse((STARTUP_FILE.parent / file).read_text(), feature_version=(3, 8))


def test_the_start_up_file_needs_nothing_of_this_package() -> None:
    source = STARTUP_FILE.read_text()
    assert "import jupyter_gq" not in source
    assert "from jupyter_gq" not in source
    assert importlib.util.find_spec("jupyter_gq.notebook.kernel_startup") is not None


def kernel_class_options(
    argv: list[str], env: dict[str, str], ipykernel: str | None = None, folder: Path = Path()
) -> str:
    """Return what the start-up file decides about the kernel class, and its complaints."""
    code = f"print(kernel_startup.choose_kernel_class({str(STARTUP_FILE.parent)!r}, {argv!r}, {env!r}))"
    if ipykernel is not None:
        (folder / "ipykernel").mkdir()
        (folder / "ipykernel/__init__.py").write_text("")
        (folder / "ipykernel/ipkernel.py").write_text(ipykernel)
    return in_kernel(folder, code, {}).strip()


HAS_SOCKET = {"JUPYTER_GQ_SOCKET": "/run/gq/kernels"}


def test_kernel_of_our_server_gets_the_class_whose_cells_wait(tmp_path: Path) -> None:
    chosen = "['--IPKernelApp.kernel_class=jupyter_gq_kernel.waiting_kernel.WaitingKernel']"
    assert kernel_class_options(["-f", "x"], HAS_SOCKET, folder=tmp_path) == chosen


@pytest.mark.parametrize(("argv", "env"), [([], {}), (["--IPKernelApp.kernel_class=my.Kernel"], HAS_SOCKET)])
def test_kernel_of_a_job_or_with_a_class_of_the_user_stays_as_it_is(argv, env, tmp_path: Path) -> None:
    assert kernel_class_options(argv, env, folder=tmp_path) == "[]"


@pytest.mark.parametrize(
    ("ipykernel", "complaint"),
    [
        ("class IPythonKernel: pass", False),
        (
            "class IPythonKernel:\n    _cancel_on_sigint = 1\n    def __init_subclass__(cls): raise TypeError('final')",
            True,
        ),
        ("raise RuntimeError('broken')", True),
    ],
)
def test_kernel_that_cannot_wait_starts_as_it_is(tmp_path: Path, ipykernel: str, complaint: bool) -> None:
    said = kernel_class_options([], HAS_SOCKET, ipykernel, tmp_path)
    assert "[]" in said
    assert ("cells of this kernel do not wait" in said) is complaint
