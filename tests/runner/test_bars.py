"""The progress of jobs whose libraries show bars: what the real libraries show, over all of the run.

CI has tqdm and rich. `make test-bars` has the others too.
See docs/decisions/0488-run-notebooks-and-bars-of-libraries-outside-ci.md.
"""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import groupby

import pytest

from jupyter_gq.client.outputs import Fold
from jupyter_gq.runner.output.progress_bars import find_progress

from .conftest import Job, Service

#: Seconds until a job has imported its library and trained.
LONGEST = 300

KERAS = """
import os, time
os.environ["KERAS_BACKEND"] = "torch"
import keras, numpy

class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None): time.sleep(0.05)
    def on_test_batch_end(self, batch, logs=None): time.sleep(0.05)

x, y = numpy.random.rand(32, 4).astype("float32"), numpy.random.rand(32, 1).astype("float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(loss="mse", optimizer="sgd")
"""
LIGHTNING = """
import time, torch, lightning
from lightning.pytorch.callbacks import RichProgressBar, TQDMProgressBar

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
    def step(self, batch, name):
        time.sleep(0.1)
        loss = self.net(batch[0]).pow(2).mean()
        self.log(name, loss, prog_bar=True)
        return loss
    def training_step(self, batch, number): return self.step(batch, "loss")
    def validation_step(self, batch, number): self.step(batch, "val")
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)

data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(12, 4)), batch_size=2)
options = dict(max_epochs=2, logger=False, enable_checkpointing=False, accelerator="cpu", enable_model_summary=False)
"""
TRANSFORMERS = """
import time, torch
from transformers import ProgressCallback, Trainer, TrainingArguments
from transformers.utils.notebook import NotebookProgressCallback

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
    def forward(self, x=None, labels=None):
        time.sleep(0.05)
        out = self.net(x)
        return {"loss": (out - labels).pow(2).mean(), "logits": out}

data = [{"x": torch.rand(4), "labels": torch.rand(1)} for _ in range(32)]
options = dict(
    output_dir="trained", num_train_epochs=2, per_device_train_batch_size=4, per_device_eval_batch_size=4,
    report_to=[], save_strategy="no", use_cpu=True, logging_steps=4,
)
"""
#: Code by its name, and the phases of its progress in order; each is a pattern of the beginning of its text.
CASES = {
    "tqdm": (
        "import time\nfrom tqdm import tqdm\nfor _ in tqdm(range(20), desc='train'): time.sleep(0.05)",
        ["train: "],
    ),
    "tqdm.auto, nested": (
        "import time\nfrom tqdm.auto import tqdm, trange\nfor _ in trange(3, desc='epochs'):\n"
        "    for _ in tqdm(range(10), desc='batches', leave=False): time.sleep(0.03)",
        ["epochs: "],
    ),
    "tqdm.auto, a loop that was left": (
        "import time\nfrom tqdm.auto import tqdm\nfor step in tqdm(range(10), desc='first'):\n    time.sleep(0.05)\n"
        "    if step == 5: break\nprint('left')\nfor step in tqdm(range(10), desc='second'): time.sleep(0.05)",
        ["first: ", "second: "],
    ),
    "tqdm.auto, nested, with prints": (
        "import time\nfrom tqdm.auto import tqdm, trange\nfor _ in trange(3, desc='epochs'):\n"
        "    for _ in tqdm(range(10), desc='batches'): time.sleep(0.03)\n    print('loss', 0.3)",
        ["epochs: "],
    ),
    "tqdm, nested": (
        "import time\nfrom tqdm import tqdm, trange\nfor _ in trange(3, desc='epochs'):\n"
        "    for _ in tqdm(range(10), desc='batches', leave=False): time.sleep(0.03)",
        ["epochs: "],
    ),
    "tqdm, nested bars that stay": (
        "import time\nfrom tqdm import tqdm, trange\nfor _ in trange(3, desc='epochs'):\n"
        "    for _ in tqdm(range(10), desc='batches'): time.sleep(0.03)",
        ["epochs: "],
    ),
    "tqdm with prints": (
        "import time\nfrom tqdm import tqdm\nfor step in tqdm(range(20), desc='train'):\n    time.sleep(0.05)\n"
        "    if step % 5 == 0: tqdm.write(f'loss {step}')",
        ["train: "],
    ),
    "a bar of tqdm for each epoch": (
        "import time\nfrom tqdm import tqdm\nfor epoch in (1, 2):\n"
        "    for _ in tqdm(range(10), desc=f'Epoch {epoch}/2'): time.sleep(0.05)\n    print('loss', 0.3)",
        ["Epoch 1/2", "Epoch 2/2"],
    ),
    "rich": (
        "import time\nfrom rich.progress import track\n"
        "for _ in track(range(20), description='train'): time.sleep(0.05)",
        ["train "],
    ),
    "rich, nested": (
        "import time\nfrom rich.progress import Progress\nwith Progress() as bars:\n"
        "    epochs = bars.add_task('epochs', total=3)\n    for _ in range(3):\n"
        "        batches = bars.add_task('batches', total=10)\n"
        "        for _ in range(10):\n            time.sleep(0.03)\n            bars.advance(batches)\n"
        "        bars.remove_task(batches)\n        bars.advance(epochs)\n    bars.refresh()",
        ["epochs "],
    ),
    "fastprogress": (
        "import time\nfrom fastprogress.fastprogress import master_bar, progress_bar\nbar = master_bar(range(3))\n"
        "for epoch in bar:\n    for _ in progress_bar(range(10), parent=bar): time.sleep(0.05)\n",
        [""],
    ),
    "keras": (
        KERAS + "model.fit(x, y, epochs=2, batch_size=4, validation_split=0.25, callbacks=[Slow()])",
        ["Epoch "],
    ),
    "keras, one epoch": (KERAS + "model.fit(x, y, batch_size=4, callbacks=[Slow()])", [""]),
    "lightning": (
        LIGHTNING + "lightning.Trainer(**options).fit(Net(), data)",
        ["Epoch 0", "Epoch 1"],
    ),
    "lightning, tqdm, validation": (
        LIGHTNING + "lightning.Trainer(**options, callbacks=[TQDMProgressBar()]).fit(Net(), data, data)",
        ["Sanity ", "Epoch 0", "Validation ", "Epoch 1"],
    ),
    "lightning, rich, validation": (
        LIGHTNING + "lightning.Trainer(**options, callbacks=[RichProgressBar()]).fit(Net(), data, data)",
        ["Sanity ", "Epoch 0/1", "Validation ", "Epoch 1/1"],
    ),
    "lightning, rich, accumulated gradients": (
        LIGHTNING
        + "lightning.Trainer(**options, accumulate_grad_batches=3, callbacks=[RichProgressBar()]).fit(Net(), data)",
        ["Epoch 0/1", "Epoch 1/1"],
    ),
    "transformers": (
        TRANSFORMERS + "Trainer(Net(), TrainingArguments(**options), train_dataset=data).train()",
        [""],
    ),
    "transformers, text": (
        TRANSFORMERS + "trainer = Trainer(Net(), TrainingArguments(**options), train_dataset=data)\n"
        "trainer.remove_callback(NotebookProgressCallback)\ntrainer.add_callback(ProgressCallback)\ntrainer.train()",
        [""],
    ),
    "transformers, text, evaluation": (
        TRANSFORMERS + "arguments = TrainingArguments(**options, eval_strategy='steps', eval_steps=6)\n"
        "trainer = Trainer(Net(), arguments, train_dataset=data, eval_dataset=data)\n"
        "trainer.remove_callback(NotebookProgressCallback)\ntrainer.add_callback(ProgressCallback)\ntrainer.train()",
        # After its end it evaluates once more.
        [r"\d+/16 ", r"\d+/8 "],
    ),
    "transformers, evaluation": (
        TRANSFORMERS + "arguments = TrainingArguments(**options, eval_strategy='epoch')\n"
        "Trainer(Net(), arguments, train_dataset=data, eval_dataset=data).train()",
        [""],
    ),
    "datasets": (
        "import time, datasets\nrows = datasets.Dataset.from_dict({'x': list(range(40))})\n"
        "def slow(row):\n    time.sleep(0.05)\n    return {'y': row['x']}\nrows.map(slow)",
        ["Map: "],
    ),
}
#: Cases whose last state may not be seen: rich draws ten times a second in a notebook and not once more at the end, and
#: the text bar of transformers is full only when the next line is printed.
LAST_IS_MISSING = {
    "lightning",
    "lightning, rich, accumulated gradients",
    "lightning, rich, validation",
    "transformers, text",
    "transformers, text, evaluation",
}


def missing(case: str) -> bool:
    """Return whether the library of a case is not installed."""
    return find_spec(re.split(r"[^\w]", case.removeprefix("a bar of "))[0]) is None


def read_progress(service: Service) -> Iterator[tuple[float, str]]:
    """Yield the progress after each piece of output of the cell, where there is one."""
    fold = Fold()
    for piece in service.pieces():
        fold.add([piece])
        found = find_progress(fold.outputs.get("target", []))
        if found is not None:
            yield found


def parameters() -> Iterator[object]:
    for case, (code, phases) in CASES.items():
        skip = pytest.mark.skipif(missing(case), reason="the library is not installed: see `make test-bars`")
        yield pytest.param(code, phases, 0.5 if case in LAST_IS_MISSING else 1, id=case, marks=skip)


def find_phase(text: str, phases: list[str]) -> str | None:
    """Return the phase whose pattern the beginning of the progress has: of a bar only the title may be seen yet."""
    return next((phase for phase in phases if re.match(phase, f"{text} ")), None)


@pytest.mark.parametrize(("code", "phases", "end"), parameters())
def test_progress_is_that_of_the_library(job: Job, service: Service, code: str, phases: list[str], end: float) -> None:
    """Within each phase it only rises, the phases are those that the library names, and it ends with the work."""
    job.target(code)
    job.start()
    assert job.finish(seconds=LONGEST)["outcome"] == "SUCCEEDED", job.log()
    progress = list(read_progress(service))
    begun: list[str | None] = []
    for phase, part in groupby(progress, lambda each: find_phase(each[1], phases)):
        fractions = [fraction for fraction, _ in part]
        if phase is None and set(fractions) == {1.0}:
            continue  # an inner bar that is full too
        if len(fractions) > 1 and fractions[-1] == 0:
            fractions.pop()  # Lightning empties its bar before it names the next epoch
        assert fractions == sorted(fractions), (phase, progress)
        begun.append(phase)
    assert list(dict.fromkeys(begun)) == phases, progress
    assert len({fraction for fraction, _ in progress}) > 2, progress
    assert progress[-1][0] >= end, progress
