"""Variables of the server are offered by name, and only harmless ones are sent."""

import pytest

from jupyter_gq.client.environment.variables import CAP_VARIABLES, RESERVED, matches
from jupyter_gq.devices.limits import share_environment
from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.lab.bundle.environment import ServerEnvironment
from jupyter_gq.lab.bundle.variable_reads import find_read_variables
from jupyter_gq.lab.refusal import RefusedRequest
from tests.builders import a_device

HERE = ServerEnvironment(
    environ={
        "PATH": "/bin",
        "EPOCHS": "3",
        "COLOUR": "blue",
        "https_proxy": "http://proxy:3128",
        "HTTP_PROXY": "http://ann:hunter2@proxy:3128",
        "HF_TOKEN": "hf_hunter2",
        "PWD": "/home/ann",
        "KUBERNETES_PORT": "1",
        "JUPYTERHUB_API_TOKEN": "t",
        "JPY_SESSION_NAME": "s",
        "CUDA_VISIBLE_DEVICES": "0",
    },
    usual=("PATH",),
)
READS = [
    'import os\nos.environ["EPOCHS"]',
    'os.environ["HF_TOKEN"]; os.environ["GONE"]; os.environ["CUDA_VISIBLE_DEVICES"]',
]


def test_plan_names_what_is_read_the_proxies_and_what_may_be_added():
    planned = HERE.plan(find_read_variables(READS))
    assert planned.always == ["PATH"]
    assert [(each.name, each.why) for each in planned.variables] == [
        ("COLOUR", "offered"),
        ("EPOCHS", "read"),
        ("https_proxy", "proxy"),
    ]
    assert "hunter2" not in planned.model_dump_json()
    assert "proxy:3128" not in planned.model_dump_json()


def test_a_variable_of_this_process_is_offered_only_if_the_cells_read_it():
    assert "PWD" in [each.name for each in HERE.plan(find_read_variables(['os.environ["PWD"]'])).variables]


def test_the_memory_limits_of_the_share_stay_here_also_if_the_cells_read_them():
    caps = {"XLA_CLIENT_MEM_FRACTION": "0.2", "TF_FORCE_GPU_ALLOW_GROWTH": "true", "CUPY_GPU_MEMORY_LIMIT": "9"}
    on_share = ServerEnvironment(environ={**caps, "JUPYTER_GQ_MEMORY_FRACTION": "0.2"}, usual=("XLA_*",))
    reads = ['os.environ["XLA_CLIENT_MEM_FRACTION"]']
    planned = on_share.plan(find_read_variables(reads))
    assert (planned.always, planned.variables) == ([], [])
    with pytest.raises(RefusedRequest, match="the job's own share sets it"):
        on_share.choose([], ["CUPY_GPU_MEMORY_LIMIT"])
    without_limits = ServerEnvironment(environ=caps, usual=())
    assert [each.name for each in without_limits.plan(find_read_variables([])).variables] == sorted(caps)


def test_each_variable_that_limits_a_share_is_known_to_the_dialog():
    limits = share_environment([a_device("GPU-1")], MilliGpu(500))
    assert {name for name in limits if not matches(name, RESERVED)} == set(CAP_VARIABLES)


def test_without_a_choice_the_proposal_is_sent():
    assert HERE.choose(READS, None) == {"PATH": "/bin", "EPOCHS": "3", "https_proxy": "http://proxy:3128"}


def test_a_choice_replaces_the_proposal():
    assert HERE.choose(READS, ["COLOUR"]) == {"PATH": "/bin", "COLOUR": "blue"}
    assert HERE.choose(READS, []) == {"PATH": "/bin"}


def test_into_another_image_goes_nothing_that_says_where_this_machine_has_its_software():
    there = HERE.for_image()
    reads = [*READS, 'os.environ["PATH"]']
    assert there.plan(find_read_variables(reads)).always == []
    assert "PATH" not in [each.name for each in there.plan(find_read_variables(reads)).variables]
    assert there.choose(reads, None) == {"EPOCHS": "3", "https_proxy": "http://proxy:3128"}
    assert there.choose(reads, ["PATH"]) == {"PATH": "/bin"}, "what the user names goes along"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("HF_TOKEN", "looks like a secret"),
        ("HTTP_PROXY", "has a password in it"),
        ("JUPYTERHUB_API_TOKEN", "is set by the Hub"),
        ("CUDA_VISIBLE_DEVICES", "is set by the Hub"),
        ("GONE", "has no variable GONE"),
        ("A B", "'A B' is no name of a variable"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_what_to_do(name, said):
    with pytest.raises(RefusedRequest, match=said) as refused:
        HERE.choose(READS, [name])
    assert refused.value.problem.field == "variables"
    assert "hunter2" not in str(refused.value)


def test_read_variables_that_do_not_go_along_are_told():
    warnings = HERE.list_warnings(find_read_variables(READS), of_kernel=["GONE_TOO"])
    assert [(each.code, each.message.split(".")[0]) for each in warnings] == [
        ("reads_secret", "The cells read HF_TOKEN, a secret"),
        ("reads_missing", "The cells read GONE, which this server does not have; the job will not have it either"),
    ]
    (long,) = HERE.list_warnings(find_read_variables([f"os.environ['{'A' * 9000}']"]), of_kernel=[])
    assert len(long.message) < 500
    assert HERE.list_warnings(find_read_variables(['os.environ["GONE"]']), of_kernel=["GONE"]) == []
    assert HERE.list_warnings(find_read_variables(['os.environ.get("GONE")']), of_kernel=[]) == []
