"""A job whose last statement calls a function ends as the function does which the name means at that moment."""

import pytest

from .conftest import Job

#: Modules whose `main` trains, and runs no command.
MODULES = "%%writefile trmod.py\ndef main():\n    print('trained')"
ENDS_WITH_A_COMMAND = "def main():\n    !false"


#: What binds the name anew.
BINDINGS = [
    *("from trmod import main", "import trmod\nmain = trmod.main", "from trmod import *", "%run trmod.py"),
    *("import trmod as main\nmain = main.main", "class main:\n    pass", "async def main():\n    pass"),
    *("if True:\n    def main():\n        print('trained')", "for main in [print]:\n    pass"),
    *("try:\n    from trmod import main\nexcept ImportError:\n    pass", "globals()['main'] = print"),
    *("def bind():\n    global main\n    main = print\nbind()", "main = lambda: print('trained')"),
    *("import contextlib\nwith contextlib.nullcontext(print) as main:\n    pass", "exec('def main(): pass')"),
    "from functools import wraps\nold = main\n@wraps(old)\ndef main():\n    x = !echo\n    return x",
]


@pytest.mark.parametrize(("number", "binding"), list(enumerate(BINDINGS)))
def test_a_command_of_a_function_whose_name_means_another_one_does_not_matter(
    job: Job, number: int, binding: str
) -> None:
    """The name is bound anew in the cell itself, and in a cell before it, in turn."""
    job.prefix(MODULES, "module").prefix(ENDS_WITH_A_COMMAND, "function").prefix("!grep x no-such-file", "command")
    if number % 2:
        job.target(f"{binding}\nmain()")
    else:
        job.prefix(binding, "binding").target("main()")
    result = job.run()
    assert (result["outcome"], result["sentence"]) == ("SUCCEEDED", "")


@pytest.mark.parametrize(
    "code",
    [
        "def main():\n    print('first')\ndef main():\n    !exit 3\nmain()",
        "if True:\n    def main():\n        !exit 3\nmain()",
        "%%time\ndef main():\n    !exit 3\nmain()",
        "def other():\n    !exit 3\nmain = other\nmain()",
        "%%timeit -n 1 -r 1\ndef main():\n    !exit 3\nmain()",
    ],
)
def test_the_command_of_the_function_that_the_name_means_counts(job: Job, code: str) -> None:
    job.prefix("def main():\n    print('before')", "before").target(code)
    result = job.run()
    assert result["outcome"] == "FAILED"
    assert "its last command `!exit 3` ended with exit status 3." in result["sentence"]


def test_a_name_that_means_nothing_any_more_is_the_error_of_the_cell(job: Job) -> None:
    job.prefix(ENDS_WITH_A_COMMAND, "function").target("del main\nmain()")
    result = job.run()
    assert (result["outcome"], result["ename"]) == ("FAILED", "NameError")
