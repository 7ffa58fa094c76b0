"""The variables by which tasks and launchers such as torchrun find each other."""

from jupyter_gq.backends.gang import Rendezvous, gang_environment
from jupyter_gq.client.environment.variables import GANG_VARIABLES, matches


def of_task(task: int, devices: int, tasks: int) -> dict[str, str]:
    return dict(gang_environment(task, devices, Rendezvous(tasks=tasks, address="127.0.0.1", port=29500)))


def test_a_cell_is_one_process_and_a_launcher_has_one_for_each_gpu():
    assert of_task(1, 4, 2) == {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "NNODES": "2",
        "NODE_RANK": "1",
        "NPROC_PER_NODE": "4",
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "4",
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": "29500",
    }


def test_a_single_task_has_no_rank_and_its_launcher_all_gpus():
    told = of_task(0, 4, 1)
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "PET_MASTER_ADDR"} & told.keys()
    assert (told["PET_NNODES"], told["PET_NODE_RANK"], told["PET_NPROC_PER_NODE"]) == ("1", "0", "4")


def test_a_task_without_a_gpu_is_one_process():
    assert of_task(0, 0, 2)["NPROC_PER_NODE"] == "1"


def of_elastic_task(task: int) -> dict[str, str]:
    meeting = Rendezvous(tasks=4, address="127.0.0.1", port=29500, least=2, name="job-1-3")
    return dict(gang_environment(task, 2, meeting))


def test_torchrun_of_an_elastic_task_meets_the_others_at_task_0():
    assert of_elastic_task(2) == {
        "NNODES": "2:4",
        "NODE_RANK": "2",
        "NPROC_PER_NODE": "2",
        "PET_NNODES": "2:4",
        "PET_NODE_RANK": "2",
        "PET_NPROC_PER_NODE": "2",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "127.0.0.1:29500",
        "PET_RDZV_ID": "job-1-3",
        "PET_RDZV_CONF": "is_host=false",
        "PET_MAX_RESTARTS": "100",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    assert of_elastic_task(0)["PET_RDZV_CONF"] == "is_host=true"


def test_a_notebook_server_does_not_give_these_variables_to_a_pod():
    assert all(matches(name, GANG_VARIABLES) for name in {**of_task(1, 1, 2), **of_elastic_task(0)})
