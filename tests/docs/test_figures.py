"""Figures, messages and conditions in the how-to pages are those of the code."""

import inspect
import re

import pytest

from docs.generate import configurable
from jupyter_gq.client.models import Health
from jupyter_gq.commands.printing.tables import format_duration
from jupyter_gq.controller.settings.config_file import ConfigFileError
from jupyter_gq.controller.settings.policy_file import PolicyFile
from jupyter_gq.runner.output.cell_output import OutputBounds
from jupyter_gq.store import engine
from jupyter_gq.store.silence_timeout import SILENCE_TIMEOUT

from .pages import PAGES, ROOT, relative

HOW_TO = ROOT / "docs/how-to"


def text_of(page: str) -> str:
    """The page as one line, without marks of quotation."""
    return " ".join((HOW_TO / page).read_text().replace("\n> ", "\n").split())


def size(count: int) -> str:
    return f"{count // 1024} KiB" if count < 2**20 else f"{count // 2**20} MiB"


def test_what_is_kept_of_long_output():
    bounds, text = OutputBounds(), text_of("what-is-kept.md")
    for sentence in (
        f"more than {bounds.text:,} characters of text, the last {bounds.text_kept:,} of them are kept",
        f"take more than {size(bounds.rich)}, the last {size(bounds.rich_kept)} of them are kept",
        f"a single picture above {size(bounds.single)}",
        f"once a job shows more than {size(bounds.job)} in all",
    ):
        assert sentence in text


def test_the_ages_in_the_list_of_jobs_are_written_as_the_command_writes_them():
    page = (HOW_TO / "use-the-command-line.md").read_text()
    ages = re.findall(r"^job-.*?  ([0-9.]+ (?:s|min|h|days))  ", page, re.MULTILINE)
    assert ages
    assert set(ages) <= {format_duration(seconds) for seconds in range(0, 7 * 86400, 10)}


def test_the_message_about_an_error_in_the_file(tmp_path):
    page = text_of("change-the-settings.md")
    (message,) = re.findall(r"jupyterhub_config\.py, line 5: .*?, or None\.", page)
    file = tmp_path / "jupyterhub_config.py"
    file.write_text(
        'c = get_config()\n\nc.TrainingQueues.queues = {\n    "research": {}, "vision": {"parent": "research"},\n'
        '    "nlp": {"parent": "reserch"},\n}\n'
    )
    with pytest.raises(ConfigFileError) as refused:
        PolicyFile(file, tuple)
    assert str(refused.value).removeprefix(f"{tmp_path}/") == message


def test_who_is_told_what_by_health():
    told = Health(status="degraded", code="config_refused", policy="line 3: ...").without_reasons()
    assert {name for name, value in told if value} == {"status", "code"}
    assert "`health` says a code to everybody and the reason to administrators" in text_of("watch-with-prometheus.md")


def test_every_figure_of_a_simulation_is_explained_in_the_table():
    page = (HOW_TO / "how-many-gpus.md").read_text()
    report = page[page.index("```console") : page.index("queue   guarantee")]
    figures = [line.strip().split("  ")[0] for line in report.splitlines() if re.match(r"  [a-zA-Z]", line)]
    assert len(figures) >= 9
    table = page[page.index("| Figure | Meaning |") :]
    for figure in figures:
        word = re.split(r",| up to| 9", figure)[0]
        assert re.search(rf"\|[^|]*{re.escape(word)}", table), f"{figure} is not in the table"


#: A default that a page names: behind the setting, as in "`c.TrainingQueues.grace`, 30 s", or before it.
BEHIND = re.compile(r"`c\.(\w+)\.(\w+)`(?:, | \()([0-9]+(?:\.[0-9]+)?)(?: s\b|[),])")
BEFORE = re.compile(r"\b([0-9]+(?:\.[0-9]+)?) s \(`c\.(\w+)\.(\w+)`")


#: Decisions tell what was chosen once.
PRESENT = [page for page in PAGES if "decisions" not in page.parts]


def named_defaults(page):
    text = " ".join(page.read_text().split())
    yield from ((section, name, number) for section, name, number in BEHIND.findall(text))
    yield from ((section, name, number) for number, section, name in BEFORE.findall(text))


@pytest.mark.parametrize("page", [each for each in PRESENT if list(named_defaults(each))], ids=relative)
def test_a_default_that_a_page_names_is_that_of_the_setting(page):
    sections = {cls.__name__: cls for cls in configurable()}
    for section, name, number in named_defaults(page):
        assert float(getattr(sections[section](), name)) == float(number), f"c.{section}.{name}"


def test_the_limits_of_postgresql():
    text, source = text_of("use-postgresql.md"), inspect.getsource(engine)
    limits = dict(re.findall(r"SET (\w+) = '(\d+)s'", source))
    assert (
        f"A statement that takes {limits['statement_timeout']} s, or waits {limits['lock_timeout']} s for a lock"
        in text
    )
    assert f"(the server hangs, or its disk does) counts as away after {SILENCE_TIMEOUT:g} seconds" in text
    (size,), (more,) = re.findall(r"pool_size=(\d+)", source), re.findall(r"max_overflow=(\d+)", source)
    assert f"at most {int(size) + int(more)} from the service that acts" in text
