"""What a cell does again in a job is found, and nothing that it does not do."""

import pytest

from jupyter_gq.lab.effects.effects import find_effects, find_effects_in_order


def found(source):
    return [(effect.kind, effect.what) for effect in find_effects(source)]


@pytest.mark.parametrize(
    "source",
    [
        "name = input('who? ')",
        "from getpass import getpass\nkey = getpass()",
        "import getpass as gp\nkey = gp.getpass('key')",
        "for i in range(3):\n    print(input(i))",
        "def ask():\n    return input()\nask()",
        "breakpoint()",
        "%debug",
        "%%time\nname = input()",
        "%time name = input()",
        "%memit -r 1 name = input()",
        "%%timeit name = input()\nname",
        "from rich.prompt import Confirm\nok = Confirm.ask('go on?')",
        "names = list(map(input, ['a', 'b']))",
        "class Asker:\n    def __init__(self):\n        self.name = input()\nasker = Asker()",
        "import huggingface_hub\nhuggingface_hub.login()",
        "from IPython.core.debugger import set_trace\nset_trace()",
    ],
)
def test_input_is_found(source):
    assert found(source) == [("asks_for_input", "")]


@pytest.mark.parametrize(
    "source",
    [
        "%gq_load last",
        "%gq_load last model",
        "import jupyter_gq\nmodel = jupyter_gq.result('last', 'model')",
        "from jupyter_gq import result\nmodel = result(job='last')",
    ],
)
def test_the_word_for_the_newest_job_is_found_since_a_job_refuses_it(source):
    assert found(source) == [("names_last_job", "")]


@pytest.mark.parametrize(
    "source",
    [
        "%gq_load job-4f1c last",
        "%gq_load",
        "import jupyter_gq\njupyter_gq.result('job-4f1c', 'last')",
        "import jupyter_gq\nids = {'last': 'job-4f1c'}\njupyter_gq.result(ids.get('last'), 'm')",
        "result('last')",
    ],
)
def test_other_jobs_and_functions_are_not_the_newest_job(source):
    assert found(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "%pip install torch",
        "!pip install -q torch",
        "!python -m pip install torch",
        "! uv pip install torch",
        "!uv add torch",
        "%conda install -y torch",
        "%%bash\nset -e\npip3 install torch",
        "import subprocess, sys\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', 'torch'])",
        "import os\nos.system('pip install torch')",
        "pip install torch",
        "!/opt/conda/bin/pip install torch",
        "!conda env update -f environment.yml",
        "!pipx install ruff",
        "%%script bash\npip install torch",
        "import subprocess\nsubprocess.run('pip install torch'.split())",
        "import pip\npip.main(['install', 'torch'])",
        "import micropip\nawait micropip.install('torch')",
    ],
)
def test_installed_packages_are_found(source):
    assert found(source) == [("installs_packages", "")]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("%%writefile train.py\nprint(1)", "train.py"),
        ("%%writefile -a train.py\nprint(1)", "train.py"),
        ("open('log.txt', 'a').write('x')", "log.txt"),
        ("with open('a.bin', mode='wb') as f:\n    f.write(b'')", "a.bin"),
        ("open(name, 'r+')", ""),
        ("from pathlib import Path\nwith Path('out/x.txt').open('w') as f: pass", "out/x.txt"),
        ("from pathlib import Path\nPath('x.txt').write_text('y')", "x.txt"),
        ("df.to_csv('out.csv', index=False)", "out.csv"),
        (f"df.to_csv('{'long/' * 9}out.csv')", f"{'long/' * 9}out.csv"),
        (f"%%writefile {'long/' * 9}train.py\nprint(1)", f"{'long/' * 9}train.py"),
        ("df.to_csv(path_or_buf='out.csv')", "out.csv"),
        ("df[df.x > 0].groupby('y').sum().to_parquet(path)", ""),
        ("np.save('a.npy', a)", "a.npy"),
        ("import numpy\nnumpy.savez('a.npz', a=a)", "a.npz"),
        ("torch.save(model.state_dict(), 'model.pt')", "model.pt"),
        ("model.save('model.h5')", "model.h5"),
        ("plt.savefig(f'{name}.png')", ""),
        ("import os\nos.remove('old.csv')", "old.csv"),
        ("import shutil\nshutil.rmtree('cache')", "cache"),
        ("import h5py\nf = h5py.File('d.h5', 'w')", "d.h5"),
        ("!echo done > done.txt", "done.txt"),
        ("!ls | tee -a done.txt", "done.txt"),
        ("import gzip\ngzip.open('a.gz', 'wb')", "a.gz"),
        ("%store model", ""),
        ("open(file='größe ✓.csv', mode='w')", "größe ✓.csv"),
        ("import io\nio.FileIO('a.bin', 'wb')", "a.bin"),
        ("a = np.memmap('a.bin', dtype='f4', mode='w+', shape=3)", "a.bin"),
        ("a = np.memmap('a.bin')", "a.bin"),
        ("store = pd.HDFStore('a.h5')", "a.h5"),
        ("with pd.ExcelWriter('a.xlsx') as w:\n    pass", "a.xlsx"),
        ("import logging\nlogging.basicConfig(filename='run.log')", "run.log"),
        ("import os\nos.makedirs('out')", "out"),
        ("from pathlib import Path\nPath('out').mkdir(parents=True)", "out"),
        ("import zipfile\nzipfile.ZipFile('a.zip').extractall('out')", "out"),
        ("import zipfile\nzipfile.ZipFile('a.zip').extractall()", "a.zip"),
        ("export_model(net, f'{name}.onnx')", ""),
        ("import pyarrow.parquet as pq\npq.write_table(t, 'a.parquet')", "a.parquet"),
        ("lazy.sink_parquet('a.parquet')", "a.parquet"),
        ("frame.write.mode('overwrite').parquet('out')", "out"),
        ("import networkx as nx\nnx.write_gml(graph, 'a.gml')", "a.gml"),
        ("array.dump('a.pkl')", "a.pkl"),
        ("args = TrainingArguments(output_dir='out', num_train_epochs=3)", "out"),
        ("from transformers import Seq2SeqTrainingArguments as A\nA('out')", "out"),
        ("args = trl.SFTConfig(output_dir=f'{name}/out')", ""),
        ("trainer = pl.Trainer(default_root_dir=Path('runs'))", "runs"),
        ("ModelCheckpoint(monitor='loss', dirpath='ckpt')", "ckpt"),
        ("keras.callbacks.ModelCheckpoint('best.keras')", "best.keras"),
        ("CSVLogger('train.csv')", "train.csv"),
        ("export_onnx(net, path='model.onnx')", "model.onnx"),
        ("net.export('model.pt')", "model.pt"),
        ("image.save(out_path)", ""),
        ("import os\nmodel.save(os.path.join(folder, 'm.h5'))", ""),
        ("from pathlib import Path\nPath('a.txt').rename('b.txt')", "a.txt"),
        ("%%python3\nopen('a.txt', 'w')", "a.txt"),
        ("%history -f all.py", ""),
        ("import duckdb\nduckdb.sql(\"COPY t TO 'a.parquet' (FORMAT parquet)\")", "a.parquet"),
        (
            "class Log:\n    def keep(self): self._do()\n    def _do(self): open('a.log', 'a')\nl = Log()\nl.keep()",
            "a.log",
        ),
        ("class A:\n    def save(self): open('a.log', 'a')\nclass B(A): pass\nB().save()", "a.log"),
        ("write = lambda x: open('a.log', 'a')\nwrite(1)", "a.log"),
        ("def keep(x): open('a.log', 'a')\nfrom threading import Thread\nThread(target=keep).start()", "a.log"),
        ("def keep(x): open('a.log', 'a')\nwith Pool() as pool: pool.map(keep, xs)", "a.log"),
        ("def f():\n    def save(): open('in.txt', 'w')\n    save()\nf()", "in.txt"),
    ],
)
def test_written_files_are_found_with_their_names(source, name):
    assert found(source) == [("writes_files", name)]


@pytest.mark.parametrize(
    "source",
    [
        "df.to_sql('t', engine)",
        "cursor.execute('INSERT INTO t VALUES (1)')",
        "with sqlite3.connect('a.db') as db:\n    db.executescript('''\n  create table t (x)''')",
        "conn.execute(text('UPDATE t SET x = 1'))",
        "conn.execute(f'DELETE FROM {table}')",
        "session.add(row); session.commit()",
        "collection.insert_one({'x': 1})",
        "%sql DROP TABLE t",
        "db.execute('-- all of it\\nDELETE FROM t')",
        "db.execute('/* all */ WITH old AS (SELECT 1) DELETE FROM t')",
        "import sqlalchemy as sa\nconn.execute(sa.insert(table).values(x=1))",
        "conn.execute(table.update().where(table.c.x == 1))",
        "cursor.execute(\"COPY t FROM 'a.csv'\")",
        "frame.write.saveAsTable('t')",
        "conn.execute(f'UPDATE {table} SET x = 1')",
        "conn.execute('update only t as u set x = 1')",
        "conn.execute('DROP MATERIALIZED VIEW v')",
        "conn.execute('INSERT t VALUES (1)')",
        "conn.execute('delete t from t join u on t.x = u.x')",
        "client.query('CREATE OR REPLACE TABLE t AS SELECT 1')",
        "from sqlalchemy import insert\nconn.execute(insert(table), rows)",
        "import sqlite3\na, b = sqlite3.connect('a.db'), 1\nm = sqlite3.connect(':memory:')\na.execute('DROP TABLE t')",
        "import duckdb\nm = duckdb.connect()\ncon = duckdb.connect('a.db')\ncon.execute('DROP TABLE t')",
    ],
)
def test_changed_databases_are_found(source):
    assert found(source) == [("writes_database", "")]


@pytest.mark.parametrize(
    ("source", "program"),
    [
        ("!python train.py", "python"),
        ("%%bash\nls\nmake data", "make"),
        ("import subprocess\nsubprocess.run(['wget', url])", "wget"),
        ("%rm -r data", "rm"),
        ("!rm data.csv", "rm"),
        ("!case $x in a) rm y;; esac", "rm"),
        ("!case $x in a|b) rm y;; esac", "rm"),
        ("%%bash\ncase $x in\n  a) ls ;;\n  (b|c) rm y ;;\n  *) echo no ;;\nesac", "rm"),
        ("%%bash\nfor x in a b; do case $x in a) ls;; *) make;; esac; done", "make"),
        ("!env -i A=1 python a.py", "python"),
        ("!sudo -u x rm -r a", "rm"),
        ("!sudo --user=x -n -- rm -r a", "rm"),
        ("!time -p nohup make", "make"),
        ("!sudo -i", "sudo"),
    ],
)
def test_commands_that_act_are_found(source, program):
    assert found(source) == [("runs_commands", program)]


@pytest.mark.parametrize(
    "source",
    [
        "data = open(x).read()",
        "open('w')",
        "open('a.txt', mode)",
        "open('a.txt', 'rb')",
        "with open('a.csv', encoding='utf-8', newline='') as f: pass",
        "Image.open('w.png')",
        "text = df.to_csv()",
        "import io\nbuffer = io.StringIO()\ndf.to_csv(buffer)",
        "from io import BytesIO\nwith BytesIO() as b:\n    np.save(b, a)",
        "import sys\ndf.to_csv(sys.stdout)",
        "import os\nopen(os.devnull, 'w')",
        "def save():\n    open('a.txt', 'w')",
        "class A:\n    def save(self):\n        df.to_csv('a.csv')",
        "save = lambda: df.to_csv('a.csv')",
        "df = df.rename(columns={'a': 'b'}).replace(1, 2)",
        "model.input(x); my_input(3)",
        "def input(x): return x\ninput(3)",
        "rows = conn.execute('SELECT * FROM t')",
        "pd.read_sql('select updated from t', conn)",
        "df.query('update > 3')",
        "import tarfile\ntarfile.open('a.tar.xz', 'r:xz')",
        "# open('a', 'w')\ns = \"open('a', 'w'); !pip install x\"",
        "!ls -l",
        "!nvidia-smi",
        "!pip list",
        "files = !ls data",
        "!git log | head -3",
        "!cat a.txt 2>/dev/null",
        "!echo x 2>&1",
        "!case $x in a) ls;; esac",
        "!echo 'just in case of rain in (x)'",
        "!env -u A",
        "!env",
        "!sudo -u x ls",
        "%%bash\nif ls; then\n  ls\nelse\n  ls\nfi",
        "%matplotlib inline\nx != 3",
        "%pip list",
        "%store -r model",
        "%%html\n<form action=input()>",
        "x.save()",
        "from nets import save\nclass Net:\n    def save(self): open('net.bin', 'wb')\nsave()",
        "duckdb.sql('CREATE TABLE t AS SELECT 1')",
        "db.execute('CREATE TABLE IF NOT EXISTS t (x)')",
        "for",
        "",
    ],
)
def test_nothing_is_found_where_nothing_happens(source):
    assert found(source) == []


def test_each_effect_is_named_once():
    assert found("df.to_csv('a.csv')\ndf.to_csv('a.csv')\ndf.to_csv('b.csv')") == [
        ("writes_files", "a.csv"),
        ("writes_files", "b.csv"),
    ]


def test_what_functions_and_classes_of_earlier_cells_write_is_found_where_they_are_called():
    cells = [
        "import torch\ndef keep(model, path='model.pt'):\n    torch.save(model, 'model.pt')",
        "class Trainer:\n    def fit(self):\n        keep(self)\n",
        "trainer = Trainer()",
        "print(trainer)",
        "trainer.fit()",
        "keep(1)",
        "keep = 1",
    ]
    found = [[(each.kind, each.what) for each in effects] for effects in find_effects_in_order(cells)]
    assert found == [[], [], [], [], [("writes_files", "model.pt")], [("writes_files", "model.pt")], []]


def test_many_cells_that_call_a_long_function_are_followed_within_a_limit():
    long = "def long():\n" + "    step()\n" * 4000 + "    open('a.txt', 'w')"
    assert [len(effects) for effects in find_effects_in_order([long, *["long()"] * 4])] == [0, 1, 1, 0, 0]


def test_many_classes_are_looked_through_within_a_limit():
    first = "class C0:\n    def keep(self): open('a.txt', 'w')\n"
    others = "".join(f"class C{number}(C{number - 1}): pass\n" for number in range(1, 4000))
    cells = [first + others, "C3999().keep()", "C3999().miss()", "C3999().miss()", "C3999().keep()"]
    assert [len(effects) for effects in find_effects_in_order(cells)] == [0, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("plot(1)", 0),
        ("plot(1, None)", 0),
        ("plot(1, path=None)", 0),
        ("plot(1, 'a.png')", 1),
        ("plot(1, path='a.png')", 1),
        ("plot(1)\nplot(1, path='a.png')", 1),
        ("plot(*arguments)", 1),
        ("plot(**options)", 1),
        ("Plot().draw()", 0),
        ("Plot().draw('a.png')", 1),
        ("only_named()", 0),
        ("only_named(save=True)", 1),
        ("with_default()", 1),
    ],
)
def test_what_an_optional_argument_switches_on_counts_only_if_it_is_given(call, count):
    cells = [
        "def plot(table, path=None):\n    if path is not None and table:\n        open('a.txt', 'w')",
        "class Plot:\n    def draw(self, path=''):\n        if path:\n            open('a.txt', 'w')",
        "def only_named(*, save=False):\n    if save:\n        open('a.txt', 'w')\n    else:\n        print()",
        "def with_default(path=None):\n    path = path or 'a.txt'\n    if path:\n        open('a.txt', 'w')",
        call,
    ]
    assert [len(effects) for effects in find_effects_in_order(cells)] == [0, 0, 0, 0, count]


def test_a_buffer_of_an_earlier_cell_is_no_file():
    cells = ["import io\nbuffer = io.StringIO()", "table.to_csv(buffer)", "buffer = 'a.csv'\ntable.to_csv(buffer)"]
    assert [len(effects) for effects in find_effects_in_order(cells)] == [0, 0, 1]


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def m(self): open('a', 'w')\na = A()",
        "class A:\n    def m(self): open('a', 'w')\nother.m()",
        "def keep(): open('a', 'w')\nbutton.on_click(keep)",
        "text = 'a'.replace('b', 'c.txt')",
        "series.rename('b.txt')",
        "import json\njson.dumps('a.json')",
        "import os\nos.makedirs('out', exist_ok=True)",
        "%%python3\nprint(1)",
        "list(map(str, [1]))",
        "spark.sql('CREATE OR REPLACE TEMP VIEW v AS SELECT 1')",
        "spark.sql('create or replace global temporary view v as select 1')",
        "db.execute('-- INSERT INTO t\\nSELECT 1')",
        "conn.execute(select(table))",
        "df.query('drop in [1, 2]')",
        "df.query('update and delete')",
        "df.query('create')",
        "client.query(filters.update(x=1))",
        "runner.execute(tasks.insert(0, task))",
        "import sqlite3\ncon = sqlite3.connect(':memory:')\ncur = con.cursor()\ncur.execute('DROP TABLE t')",
        "import duckdb\ncon = duckdb.connect()\ncon.sql('CREATE TABLE t AS SELECT 1')\ndf.to_sql('t', con)",
        "import duckdb\nwith duckdb.connect(':memory:') as con:\n    con.execute('INSERT INTO t VALUES (1)')",
        "import sqlite3\nDB = ':memory:'\nwith sqlite3.connect(DB) as db:\n    db.executescript('create table t (x)')",
        "engine = create_engine('sqlite://')\nwith Session(engine) as session:\n    session.commit()",
        "engine = create_engine('sqlite://')\nwith engine.begin() as conn:\n    conn.execute(table.insert())",
        "con = sqlite3.connect(':memory:')\ndef fill(c):\n    c.execute('INSERT INTO t VALUES (1)')\nfill(con)",
        "export_x('v1.a')",
        "save_x('1.0.dev2')",
        "save_model('resnet50.a1_in1k')",
        "export_model('model.v2')",
        "huggingface_hub.login(token=token)",
        "args = TrainingArguments()",
        "Trainer(default_root_dir=None)",
        "def train(output_dir): pass\ntrain(output_dir='out')",
        "net.export(format='onnx')",
        "%history",
    ],
)
def test_similar_code_has_no_effect(source):
    assert found(source) == []
