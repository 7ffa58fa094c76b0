"""A kernel is described for a job, and only harmless variables are sent with it."""

import sys
from dataclasses import dataclass, field

import pytest

from jupyter_gq.lab.bundle.kernelspec import describe_kernel, select_environment
from jupyter_gq.lab.hub_environment import read_hub_environment


@dataclass
class Spec:
    """A kernelspec with the attributes that are read."""

    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    resource_dir: str = "/share/kernels/k"
    display_name: str = "K"
    language: str = "python"


@pytest.mark.parametrize("name", ["python", "python3", f"python3.{sys.version_info[1]}"])
def test_bare_python_command_is_the_python_of_this_server(name):
    assert describe_kernel("k", Spec([name, "-m", "ipykernel"]), {}).argv == [sys.executable, "-m", "ipykernel"]


def test_other_commands_are_found_in_the_path_that_is_sent(tmp_path):
    tool = tmp_path / "julia"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert describe_kernel("k", Spec(["julia", "-i"]), {"PATH": str(tmp_path)}).argv[0] == str(tool)
    assert describe_kernel("k", Spec(["/opt/R", "-i"]), {}).argv[0] == "/opt/R"
    assert describe_kernel("k", Spec(["missing"]), {"PATH": str(tmp_path)}).argv[0] == "missing"


def test_only_the_connection_file_remains_a_placeholder():
    argv = describe_kernel("k", Spec(["/bin/k", "{resource_dir}/run", "{prefix}", "{connection_file}"]), {}).argv
    assert argv[1:] == ["/share/kernels/k/run", sys.prefix, "{connection_file}"]


def test_of_a_kernel_s_own_variables_only_the_names_are_sent():
    spec = Spec(["/bin/k"], env={"DATA": "${HOME}/data", "HF_TOKEN": "hunter2", "JUPYTERHUB_API_TOKEN": "x"})
    kernel = describe_kernel("k", spec, {"HOME": "/home/ann"})
    assert (kernel.env, kernel.env_names, kernel.resource_dir) == ({}, ["DATA", "HF_TOKEN"], "/share/kernels/k")
    assert "hunter2" not in kernel.model_dump_json()


def test_tokens_are_never_sent_even_if_they_are_listed():
    environ = {
        "PATH": "/bin",
        "LC_TIME": "C",
        "OTHER": "x",
        "JUPYTERHUB_API_TOKEN": "t",
        "JPY_PARENT_PID": "1",
        "GQ_JOB_ID": "j",
        "HF_TOKEN": "t",
        "DB_PASSWORD": "p",
        "CUDA_VISIBLE_DEVICES": "0",
        "AWS_ACCESS_KEY_ID": "k",
        "STORE": "s3://ann:hunter2@store/",
        "NO NAME": "1",
    }
    assert select_environment(environ, ["PATH", "LC_*"]) == {"PATH": "/bin", "LC_TIME": "C"}
    assert select_environment(environ, ["*"]) == {"LC_TIME": "C", "OTHER": "x", "PATH": "/bin"}


def test_variables_of_the_spawner_override_those_of_the_hub():
    here = read_hub_environment(
        {
            "JUPYTER_GQ_URL": "http://127.0.0.1:1/",
            "JUPYTERHUB_API_TOKEN": "t",
            "JUPYTERHUB_USER": "ann",
            "JUPYTERHUB_SERVER_NAME": "wrong",
            "JUPYTER_GQ_SERVER": "",
        }
    )
    assert (here.on_hub, here.user, here.server) == (True, "ann", "")
    assert not read_hub_environment({"JUPYTERHUB_API_TOKEN": "t"}).on_hub
    assert read_hub_environment({"JUPYTERHUB_SERVER_NAME": "gpu"}).server == "gpu"
