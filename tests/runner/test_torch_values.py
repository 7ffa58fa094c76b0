"""Values of PyTorch itself that go along with a job, and the reasons of others: `make test-torch`.

See docs/decisions/0365-test-pytorch-in-an-environment-of-its-own.md.
"""

import importlib.util
import json
import subprocess
import sys

import pytest

from jupyter_gq.client.environment.kernel import CARRY_FILE

from .conftest import Job
from .test_carried import _SAVE, shown, take_along

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed: make test-torch"
)
#: A module that has been trained for a step, with the state of its optimizer, and batches that processes load.
TRAINED = """
import torch
from torch import nn
torch.manual_seed(1)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 2)
        self.register_buffer("seen", torch.tensor(0))
    def forward(self, x):
        return self.body(x)
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, row):
        return torch.full((3,), float(row))
weights = torch.arange(6.0).reshape(2, 3)[:, 1:].requires_grad_()
net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
net(torch.ones(4, 3)).sum().backward()
optimizer.step()
loader = torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=2)
"""
#: Shows the values, and that the optimizer still trains the parameters of the module.
SHOWS = """
state = optimizer.state_dict()["state"]
print(weights.tolist(), weights.requires_grad, weights.is_leaf)
print([(name, each.tolist()) for name, each in net.state_dict().items()])
print([(key, sorted((name, each.tolist()) for name, each in value.items())) for key, value in state.items()])
print([each is one for each, one in zip(optimizer.param_groups[0]["params"], net.parameters(), strict=True)])
print([batch.tolist() for batch in loader], loader.num_workers)
optimizer.step()
print(net.body.weight.tolist())
"""


def test_values_of_torch_are_in_the_job_as_they_were_at_sending(job: Job) -> None:
    here = subprocess.run([sys.executable, "-"], input=TRAINED + SHOWS, capture_output=True, text=True, check=True)
    take_along(job, TRAINED, "weights", "net", "optimizer", "loader")
    result = job.target(SHOWS).run()
    assert result["outcome"] == "SUCCEEDED", result
    assert shown(job) == here.stdout


def test_a_tensor_without_values_goes_along_as_such(job: Job) -> None:
    take_along(job, "import torch\nempty = torch.empty(2, 3, device='meta')", "empty")
    assert job.target("print(empty.device, tuple(empty.shape), empty.dtype)").run()["outcome"] == "SUCCEEDED"
    assert shown(job) == "meta (2, 3) torch.float32\n"


def test_a_tensor_of_a_gpu_is_in_main_memory_if_the_job_finds_no_gpu(job: Job) -> None:
    """The process that saves the tensor lets PyTorch write that its memory is that of a GPU."""
    lies = "import torch\ntorch.serialization.location_tag = lambda storage: 'cuda:0'\nweights = torch.arange(3.0)"
    carried = take_along(job, lies, "weights")
    assert carried["pickles"]
    assert b"cuda:0" in job.pickles[0]
    assert job.target("print(weights.device, weights.tolist())").run()["outcome"] == "SUCCEEDED"
    assert shown(job) == "cpu [0.0, 1.0, 2.0]\n"


@pytest.mark.parametrize(
    ("made", "goes", "on_gpu"),
    [
        ("torch.zeros(2)", True, False),
        ("torch.sparse_coo_tensor([[0]], [1.0], (2,))", True, False),
        ("(torch.ones(2, requires_grad=True) * 2)", True, False),
        ("iter(torch.utils.data.DataLoader([1, 2], num_workers=1))", False, False),
        ("Pretends()", True, True),
    ],
    ids=["tensor", "sparse", "no leaf", "iterator of a loader", "on a GPU"],
)
def test_values_of_torch_go_along_or_their_reason_is_told(job: Job, made: str, goes: bool, on_gpu: bool) -> None:
    code = (
        "import torch\nclass Pretends(torch.Tensor):\n    is_cuda = property(lambda self: True)\n"
        f"if __name__ == '__main__':\n    value = {made}"
    )
    folder = job.folder.parent / "saved"
    folder.mkdir()
    request = {"names": ["value"], "folder": str(folder), "limit": 10**8, "cwd": "/", "makers": {}, "staying": {}}
    saved = subprocess.run(
        [sys.executable, "-c", _SAVE, str(CARRY_FILE), json.dumps(request), code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "TypedStorage" not in saved.stderr, "the user is warned of what their code does not use"
    (told,) = [
        each for each in json.loads((folder / "report.json").read_text())["variables"] if each["name"] == "value"
    ]
    assert (told["why"] == "", told["gpu"]) == (goes, on_gpu), told
