"""What the code only writes takes no files along."""

from pathlib import Path

import pytest

from jupyter_gq.lab.project import plan
from jupyter_gq.lab.project.needed import Code, find_needed
from jupyter_gq.lab.reading.cells import parse_cell

from .test_project import CAPS, find, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.parametrize(
    "source",
    [
        "for e in range(3):\n    with open(f'ckpt/{e}.pt', 'w') as f: f.write('x')",
        "torch.save(x, 'ckpt/{}.pt'.format(e))",
        "torch.save(x, 'ckpt/%d.pt' % e)",
        "torch.save(x, 'ckpt/' + name)",
        "path = f'ckpt/{name}.csv'\ndf.to_csv(path)\nprint(path)",
        "from pathlib import Path\nOUT = Path('ckpt')\nOUT.mkdir(exist_ok=True)\ntorch.save(x, OUT / f'{e}.pt')",
        "OUT = 'ckpt'\nos.makedirs(OUT, exist_ok=True)\nplt.savefig(os.path.join(OUT, f'{e}.png'))",
        "if not os.path.exists('ckpt'):\n    os.makedirs('ckpt')\nsave_net(net, f'ckpt/{e}.pt')",
        "def keep(net, path):\n    torch.save(net, path)\nkeep(net, f'ckpt/{e}.pt')",
        "def keep(net, path='ckpt/1.pt'):\n    torch.save(net, path)\nkeep(net)",
        "%time torch.save(x, f'ckpt/{e}.pt')",
        "!echo done > ckpt/1.pt",
        "!ls 2>&1 | tee ckpt/1.pt",
        "OUT = 'ckpt'\ntorch.save(x, f'{OUT}/{e}.pt')\nprint(f'saved in {OUT}')\nlog.info('saved in %s', OUT)",
        "new = f'ckpt/{e}.new'\ntorch.save(x, new)\nos.replace(new, f'ckpt/{e}.pt')",
        "from pathlib import Path\nnew = Path(f'ckpt/{e}.new')\nnew.write_bytes(x)\nnew.rename(name)",
        "os.system('echo done > ckpt/1.pt')",
        "from torch.utils.tensorboard import SummaryWriter\nwriter = SummaryWriter(log_dir='ckpt')",
        "torch.save(obj=x, f=f'ckpt/{e}.pt')",
        "shutil.copy(src='a.pt', dst='ckpt/1.pt')",
        "for path in ['ckpt/1.pt', 'ckpt/2.pt']:\n    torch.save(x, path)",
        "import shutil\nshutil.rmtree('ckpt')\nos.makedirs('ckpt')\nopen(f'ckpt/{e}.pt', 'w')",
    ],
)
def test_what_is_only_written_takes_no_file_along(folder, source):
    write(folder, "ckpt/1.pt", "1")
    assert going_of_cells(folder, f"import torch, os, shutil\n{source}") == []


@pytest.mark.parametrize(
    "source",
    [
        "open(f'ckpt/{e}.pt', 'r+')",
        "open(f'ckpt/{e}.pt', mode)",
        "path = f'ckpt/{e}.pt'\ntorch.save(x, path)\nx = torch.load(path)",
        "path = f'ckpt/{e}.pt'\ntorch.save(x, path)\n!cat {path}",
        "OUT = 'ckpt'\nopen(f'{OUT}/{e}.pt', 'w')\nos.listdir(OUT)",
        "path = f'ckpt/{e}.pt'\nif not os.path.exists(path): torch.save(x, path)",
        "def keep(net, path):\n    torch.save(net, path)\n    return torch.load(path)\nkeep(net, f'ckpt/{e}.pt')",
        "torch.save(torch.load(f'ckpt/{e}.pt'), f'best/{e}.pt')",
        "shutil.copy(f'ckpt/{e}.pt', 'best.pt')",
        "zipfile.ZipFile('ckpt/1.pt').extractall('out')",
        "shutil.unpack_archive(filename='ckpt/1.pt', extract_dir='out')",
        "shutil.copy(src='ckpt/1.pt', dst='a.pt')",
        "import h5py\nh5py.File('ckpt/1.pt', 'a')",
        "export_net('ckpt/1.pt', 'net.onnx')",
        "os.rename('ckpt/1.pt', 'net.pt')",
        "path = 'ckpt/1.pt'\nos.rename(path, 'net.pt')",
        "for path in ['ckpt/1.pt']:\n    torch.save(torch.load(path), path)",
        "net = load('ckpt')\nopen(net.path, 'w')",
        "open(f'{load(\"ckpt\")}.txt', 'w')",
        "new = glob('ckpt/*.pt')\nopen(f'{new}.txt', 'w')",
        "new = os.popen('sort -r ckpt/1.pt')\nopen(f'{new}.txt', 'w')",
        "new = !sort -r ckpt/1.pt\nopen(f'{new}.txt', 'w')",
        "path = f'ckpt/{e}.pt'",
        "open = print\nopen(f'ckpt/{e}.pt', 'w')",
    ],
)
def test_what_may_be_read_goes_along(folder, source):
    write(folder, "ckpt/1.pt", "1")
    assert going_of_cells(folder, f"import torch, os, shutil, zipfile\n{source}") == ["ckpt/1.pt"]


def test_a_module_that_writes_takes_no_file_along_either(folder):
    write(folder, "ckpt/1.pt", "1")
    write(folder, "train.py", "import torch\ndef keep(net, e):\n    torch.save(net, 'ckpt/{}.pt'.format(e))")
    found = find(folder, "import train")
    assert (list(found.going), found.folders) == (["train.py"], ["ckpt"])


def test_folders_into_which_the_code_writes_are_those_of_the_job(folder):
    for path in ("ckpt/1.pt", "plots/a.png", "logs/x/y.txt", "old/a.txt"):
        write(folder, path)
    found = find(
        folder,
        "import torch, os, shutil\nopen(f'ckpt/{e}.pt', 'w')\nplt.savefig('plots/a.png')",
        "os.makedirs('logs/x', exist_ok=True)",
        "shutil.rmtree('old')\nos.makedirs('old')\nos.makedirs('new')\nopen('none/a.txt', 'w')",
        "os.remove('plots/a.png')",
    )
    assert found.folders == ["ckpt", "logs/x", "old", "plots"]
    assert found.written == ["ckpt/1.pt", "new", "none/a.txt"]


def going_of_cells(folder: Path, *sources: str) -> list[str]:
    trees = [tree for source in sources if (tree := parse_cell(source)) is not None]
    assert len(trees) == len(sources)
    return sorted(find_needed(folder, Code(trees=trees), (), CAPS).going)


@pytest.mark.parametrize(
    ("source", "own"),
    [
        ("torch.save(x, f'ckpt/{e}.pt')", {"ckpt/1.pt"}),
        ("torch.save(x, 'ckpt/{}'.format(e))", {"ckpt/1.pt", "ckpt/[1].csv", "ckpt/notes.txt"}),
        ("path = 'ckpt/' + name + '.pt'\nopen(path, 'w')", {"ckpt/1.pt"}),
        ("OUT = 'ckpt'\ndf.to_csv(os.path.join(OUT, f'{e}.csv'))", {"ckpt/[1].csv"}),
        ("from pathlib import Path\nOUT = Path('ckpt')\ndf.to_csv(OUT / f'[{e}].csv')", {"ckpt/[1].csv"}),
        ("def keep(net, path):\n    torch.save(net, path)\nkeep(net, f'ckpt/{e}.pt')", {"ckpt/1.pt"}),
        ("torch.save(x, f'ckpt/{e}.pt')\nopen('ckpt/1.pt')", set()),
        ("torch.save(torch.load(f'ckpt/{e}.pt'), f'ckpt/{e}.pt')", set()),
        ("OUT = 'ckpt'\nopen(f'{OUT}/{e}.pt', 'w')\nos.listdir(OUT)", set()),
        ("os.remove(f'ckpt/{e}.pt')", set()),
        ("torch.save(x, f'{e}.pt')", set()),
        ("torch.save(x, f'ckpt/{run}/{e}.pt')", set()),
    ],
)
def test_a_file_that_a_computed_path_may_overwrite_is_the_jobs_own(folder, source, own):
    """Else the job would write through its link into the user's file."""
    for path in ("0.pt", "ckpt/1.pt", "ckpt/notes.txt", "ckpt/[1].csv"):
        write(folder, path, "1")
    code = Code(trees=[parse_cell(f"import torch, os\n{source}")])
    assert set(find_needed(folder, code, [], CAPS).written) == own


def test_data_above_the_cap_stays_linked_beside_computed_paths(folder):
    write(folder, "data/large.csv", "1" * (CAPS.file + 1))
    write(folder, "data/1.csv", "1")
    code = Code(trees=[parse_cell("pd.read_csv('data/large.csv')\ndf.to_csv(f'data/{n}.csv')")])
    assert find_needed(folder, code, [], CAPS).written == ["data/1.csv"]


@pytest.mark.parametrize("source", ["TrainingArguments(output_dir='ckpt')", "pl.Trainer(default_root_dir='ckpt')"])
def test_the_folder_of_a_trainer_takes_nothing_along_and_keeps_what_is_in_it(folder, source):
    """A training that goes on from a checkpoint finds it there."""
    write(folder, "ckpt/1.pt", "1")
    found = find_needed(folder, Code(trees=[parse_cell(source)]), (), CAPS)
    assert (list(found.going), found.written, found.folders) == ([], [], ["ckpt"])


@pytest.mark.parametrize(
    "source",
    [
        "Trainer(args=TrainingArguments(output_dir='ckpt')).train(resume_from_checkpoint=True)",
        "TrainingArguments('ckpt/')",
        "CSVLogger('ckpt')",
        "pl.Trainer(default_root_dir='ckpt')",
        "def fit():\n    return TrainingArguments('ckpt')\nfit()",
    ],
)
def test_the_plan_of_a_job_keeps_the_folder_of_a_trainer(folder, source):
    """The effects of the cells name it as well, as something that the job writes."""
    write(folder, "ckpt/checkpoint-1/model.bin", "1")
    found = plan._search(folder, [source], (), CAPS)
    assert (list(found.going), found.written, found.folders) == ([], [], ["ckpt"])


@pytest.mark.parametrize("source", ["shutil.copytree('new', 'ckpt')", "shutil.rmtree('ckpt')\nos.makedirs('ckpt')"])
def test_a_folder_that_the_job_makes_as_a_whole_is_its_own(folder, source):
    found = plan._search(folder, [f"import os, shutil\n{source}\nTrainingArguments('runs')"], (), CAPS)
    assert "runs" not in found.written
    assert ("ckpt" in found.written) == ("copytree" in source)


@pytest.mark.parametrize(
    "source",
    [
        "keras.models.load_model(filepath='ckpt/1.pt')",
        "CSVDataset(filepath='ckpt/1.pt')",
        "Trainer(filepath='ckpt/1.pt')",
        "from utils import load\nload(filepath='ckpt/1.pt')",
        "restore(dirpath='ckpt')",
        "ImageDataset(save_dir='ckpt')",
        "ModelLoader(output_dir='ckpt')",
        "CheckpointReader(dirpath='ckpt')",
    ],
)
def test_a_call_that_may_read_what_its_keyword_names_is_no_writer(folder, source):
    write(folder, "ckpt/1.pt", "1")
    found = plan._search(folder, [source], (), CAPS)
    assert (list(found.going), found.written) == (["ckpt/1.pt"], [])


def test_a_checkpoint_at_a_filepath_is_written(folder):
    write(folder, "best.keras", "1")
    found = plan._search(folder, ["keras.callbacks.ModelCheckpoint(filepath='best.keras')"], (), CAPS)
    assert (list(found.going), found.written) == ([], ["best.keras"])


@pytest.mark.parametrize(
    ("source", "own"),
    [
        ("np.save('ckpt/best', x)", {"ckpt/best", "ckpt/best.npy"}),
        ("np.savez('best', x)", {"best", "best.npz"}),
        ("plt.savefig('ckpt/loss')", {"ckpt/loss", "ckpt/loss.png"}),
        ("np.save('ckpt/best', x)\nnp.load('ckpt/best.npy')", {"ckpt/best"}),
        ("np.save('ckpt/best.npy', x)", {"ckpt/best.npy"}),
        ("np.save('../best', x)", {"../best"}),
    ],
)
def test_a_file_to_whose_name_the_function_adds_an_ending_is_the_jobs_own(folder, source, own):
    """Else the job would write through its link into the user's file."""
    for path in ("ckpt/best.npy", "ckpt/best2.npy", "ckpt/loss.png", "best.npz", "../best.npy"):
        write(folder / "work", path, "1")
    (folder / "work/ckpt/best.d").mkdir()
    assert set(plan._search(folder / "work", [source], (), CAPS).written) == own
