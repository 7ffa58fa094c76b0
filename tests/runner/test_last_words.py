"""What is printed right before a kernel dies is under its cell and in the log."""

import sys

import pytest

from jupyter_gq.client.environment.user_secrets import write_secret

from .conftest import Job

#: Code that prints a message and ends the kernel before anybody could have read it.
DEATHS = {
    "library": "import os\nos.write(2, b'the last words\\n'); os.abort()",
    "print": "import os\nprint('the last words'); os.abort()",
    "print-killed": "import os, signal\nprint('the last words'); os.kill(os.getpid(), signal.SIGKILL)",
    "program": "import os\nos.system('echo the last words >&2'); os._exit(3)",
    "interpreter": "import ctypes\nprint('the last words')\nctypes.string_at(0)",
    "c-library": "import ctypes\nctypes.CDLL(None).__assert_fail(b'the last words', b'kernel.cu', 12, b'run')",
}


def _text(job: Job, cell: int) -> str:
    return "".join(output.get("text", "") for output in job.notebook()["cells"][cell]["outputs"])


@pytest.mark.parametrize("code", DEATHS.values(), ids=DEATHS)
def test_what_is_printed_right_before_the_death_of_the_kernel_is_shown(job: Job, code: str) -> None:
    job.prefix("print('before')", "before").target(code)
    assert job.run()["outcome"] == "FAILED", job.log()
    assert _text(job, 1).count("the last words") == 1
    assert job.log().count("the last words") == 1
    assert _text(job, 0) == "before\n"


def test_the_crash_of_the_interpreter_shows_where_it_was(job: Job) -> None:
    job.target("import ctypes\ndef crash():\n    ctypes.string_at(0)\ncrash()")
    assert job.run()["outcome"] == "FAILED", job.log()
    assert "in crash" in _text(job, 0)


def test_what_was_sent_before_the_death_is_not_shown_twice(job: Job) -> None:
    job.target("import os, sys\nfor n in range(3000): print(n)\nsys.stdout.flush()\nprint('the end'); os._exit(1)")
    assert job.run()["outcome"] == "FAILED", job.log()
    assert _text(job, 0).split() == [*map(str, range(3000)), "the", "end"]


def test_long_last_words_have_their_end(job: Job) -> None:
    job.target("import os\nprint('x' * 1_000_000 + '\\u20ac the end'); os._exit(1)")
    assert job.run()["outcome"] == "FAILED", job.log()
    assert _text(job, 0).endswith("x\u20ac the end\n")


def test_a_secret_among_the_last_words_is_hidden(job: Job) -> None:
    job.cwd.mkdir(exist_ok=True)
    write_secret(str(job.cwd), "HF_TOKEN", "hf_0123456789abcdef")
    job.manifest = {"secrets": ["HF_TOKEN"]}
    job.target("import os\nos.write(2, b'my token: ' + os.environ['HF_TOKEN'].encode()); os.abort()")
    assert job.run()["outcome"] == "FAILED", job.log()
    assert "my token: " in _text(job, 0)
    assert "hf_0123456789abcdef" not in _text(job, 0) + job.log()


def test_the_programs_of_a_cell_do_not_inherit_the_memory(job: Job) -> None:
    job.target(
        "import os, subprocess\n"
        "subprocess.run(['sh', '-c', 'ls -l /proc/self/fd; env'])\n"
        "assert 'GQ_LAST_WORDS' not in os.environ"
    )
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert "last-words" not in _text(job, 0)
    assert "GQ_LAST_WORDS" not in _text(job, 0)


def test_what_is_sent_and_does_not_arrive_is_shown(job: Job) -> None:
    job.target("import os\nprint('the last words', flush=True); os._exit(1)")
    assert job.run()["outcome"] == "FAILED", job.log()
    assert _text(job, 0) == "the last words\n"


def test_half_of_a_secret_is_not_shown(job: Job) -> None:
    job.cwd.mkdir(exist_ok=True)
    write_secret(str(job.cwd), "HF_TOKEN", "hf_0123456789abcdef")
    job.manifest = {"secrets": ["HF_TOKEN"]}
    job.target("import os\nprint('x' * 100_000 + os.environ['HF_TOKEN'] + 'y' * 65_525); os._exit(1)")
    assert job.run()["outcome"] == "FAILED", job.log()
    assert _text(job, 0).endswith("yy\n")
    assert "abcdef" not in _text(job, 0)


def test_a_kernel_without_last_words_leaves_no_memory_to_its_programs(job: Job) -> None:
    """Its own module starts ipykernel here, as a kernel of another language starts its own program."""
    job.cwd.mkdir(exist_ok=True)
    (job.cwd / "own_kernel.py").write_text("from ipykernel.kernelapp import launch_new_instance as run\nrun()\n")
    job.kernel["argv"] = [sys.executable, str(job.cwd / "own_kernel.py"), "-f", "{connection_file}"]
    job.target("import subprocess\nsubprocess.run(['sh', '-c', 'ls -l /proc/$PPID/fd; env'])")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert "last-words" not in _text(job, 0)
    assert "GQ_LAST_WORDS" not in _text(job, 0)
