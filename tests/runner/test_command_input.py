"""A command that asks for input ends in a job, where nobody can answer, and does not keep the GPUs for ever."""

import pytest

from .conftest import Job, Service


@pytest.mark.parametrize(
    "code",
    [
        "!read answer || echo no answer",
        "def ask():\n    word = 'no answer'\n    !cat; echo $word\nask()",
        "%sx true\n!{'cat'} && echo no answer",
        "!python -c \"import sys; print('no answer' if not sys.stdin.read() else '')\"",
        "command = 'cat <<END\\nno answer\\nEND'\n!{command}",
    ],
)
def test_a_command_that_asks_gets_no_answer(job: Job, service: Service, code: str) -> None:
    result = job.target(code).run()
    assert (result["outcome"], result["sentence"]) == ("SUCCEEDED", "")
    assert "no answer" in service.text()
