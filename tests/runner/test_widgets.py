"""Cells with real widgets of ipywidgets and tqdm, which have no browser in a job."""

import pytest

from .conftest import Job, Service

pytestmark = pytest.mark.usefixtures("service")

IMPORTS = "import ipywidgets as widgets\nfrom IPython.display import clear_output, display, HTML\n"


def run(job: Job, *cells: str) -> None:
    """Run these cells after the imports; the last one is the target."""
    job.prefix(IMPORTS, "imports")
    for number, cell in enumerate(cells[:-1]):
        job.prefix(cell, f"prefix-{number}")
    job.target(cells[-1])
    assert job.run()["outcome"] == "SUCCEEDED", job.log()


def shown(outputs: list[dict]) -> list[str]:
    """Return the text of each output that shows something."""
    texts = [each["text"] if each["output_type"] == "stream" else plain(each) for each in outputs]
    return [text for text in texts if text]


def plain(output: dict) -> str:
    return output["evalue"] if output["output_type"] == "error" else output["data"]["text/plain"]


def test_output_that_a_widget_captures_is_shown_where_the_widget_is(job: Job, service: Service) -> None:
    run(
        job,
        "out = widgets.Output()\n"
        "display(out)\n"
        "with out:\n"
        "    print('in it')\n"
        "    print('more')\n"
        "    display(HTML('<b>bold</b>'))\n"
        "print('beside it')\n"
        "with out:\n"
        "    print('again')\n",
    )
    assert shown(service.outputs()) == [
        "in it\nmore\n",
        "<IPython.core.display.HTML object>",
        "beside it\n",
        "again\n",
    ]
    assert "<b>bold</b>" in [output.get("data", {}).get("text/html") for output in service.outputs()]


def test_a_widget_that_is_shown_later_shows_what_it_captured(job: Job, service: Service) -> None:
    run(
        job,
        "out = widgets.Output()\nwith out:\n    print('early')\n",
        "box = widgets.VBox([widgets.IntSlider(), widgets.HBox([out])])\ndisplay(box)\nwith out:\n    print('late')",
    )
    assert shown(service.outputs("prefix-0")) == []
    assert shown(service.outputs())[-1] == "early\nlate\n"


def test_interact_shows_the_output_of_its_function(job: Job, service: Service) -> None:
    run(
        job,
        "@widgets.interact(x=(0, 10))\ndef square(x=3):\n    print(x, 'squared is', x * x)\n    return x * x\n",
    )
    assert shown(service.outputs()) == ["x: 3", "3 squared is 9\n", "9"]


def test_what_follows_cleared_outputs_keeps_its_order(job: Job, service: Service) -> None:
    run(
        job,
        "out = widgets.Output()\ndisplay(out)\n"
        "with out:\n    display('a')\n    display('b')\n"
        "for text in 'de':\n"
        "    with out:\n"
        "        clear_output()\n"
        "        display(text)\n"
        "with out:\n    display('f')\n",
    )
    assert shown(service.outputs()) == ["'e'", "'f'"]


@pytest.mark.parametrize("wait", [False, True])
def test_cleared_output_leaves_only_the_last(job: Job, service: Service, wait: bool) -> None:
    run(
        job,
        "out = widgets.Output()\ndisplay(out)\n"
        "for step in range(30):\n"
        "    with out:\n"
        f"        clear_output(wait={wait})\n"
        "        print('step', step)\n"
        "        display(HTML(str(step))) if step < 20 else None\n"
        "print('end')\n",
    )
    assert shown(service.outputs()) == ["step 29\n", "end\n"]
    assert len(service.outputs()) <= 4


def test_error_that_a_widget_captures_fails_nothing(job: Job, service: Service) -> None:
    run(job, "out = widgets.Output()\ndisplay(out)\nwith out:\n    raise ValueError('caught')\n", "print('on')")
    assert shown(service.outputs("prefix-0")) == ["caught"]
    assert shown(service.outputs()) == ["on\n"]


def test_the_kernel_knows_afterwards_what_a_widget_captured(job: Job, service: Service) -> None:
    run(
        job,
        "out = widgets.Output()\nwith out:\n    print('known')\n",
        "out.append_stdout('added')\nprint(len(out.outputs), out.outputs[0]['text'])\ndisplay(out)\n",
    )
    assert shown(service.outputs()) == ["2 known\n\n", "known\nadded"]


def test_a_display_that_a_widget_captured_is_updated(job: Job, service: Service) -> None:
    run(
        job,
        "out = widgets.Output()\ndisplay(out)\n"
        "with out:\n    handle = display('first', display_id=True)\n    handle.update('second')\n",
    )
    assert shown(service.outputs()) == ["'second'"]


def test_a_bar_that_leaves_nothing_leaves_nothing(job: Job, service: Service) -> None:
    run(
        job,
        "from tqdm.notebook import tqdm\n"
        "for _ in tqdm(range(3), desc='kept'): pass\n"
        "for _ in tqdm(range(3), desc='gone', leave=False): pass\n",
    )
    (text,) = shown(service.outputs())
    assert "kept" in text
    assert "3/3" in text


def test_widgets_in_an_output_widget_are_shown_as_text_too(job: Job, service: Service) -> None:
    run(
        job,
        "from tqdm.notebook import tqdm\n"
        "out, inner = widgets.Output(), widgets.Output()\n"
        "display(out)\n"
        "with out:\n"
        "    for _ in tqdm(range(3), desc='kept'): pass\n"
        "    for _ in tqdm(range(3), desc='gone', leave=False): pass\n"
        "    display(widgets.Label('label'))\n"
        "    display(inner)\n"
        "with inner:\n    print('innermost')\n",
    )
    bar, *others = shown(service.outputs())
    assert "kept" in bar
    assert "3/3" in bar
    assert others == ["label", "innermost\n"]


def test_a_cleared_output_widget_shows_nothing_of_those_in_it(job: Job, service: Service) -> None:
    run(
        job,
        "out, inner = widgets.Output(), widgets.Output()\n"
        "display(out)\n"
        "with out:\n    display(inner)\n"
        "with inner:\n    print('innermost')\n"
        "with out:\n    clear_output()\n    print('last')\n"
        "with inner:\n    print('not shown')\n",
    )
    assert shown(service.outputs()) == ["last\n"]


def test_odd_messages_of_widgets_stop_nothing(job: Job, service: Service) -> None:
    run(
        job,
        "from comm import create_comm\n"
        "for state in ({}, {'_model_name': 'OutputModel', 'msg_id': 7}, {'_model_name': 'HBoxModel', 'children': 3},\n"
        "              {'_model_name': 'OutputModel', 'msg_id': '', 'outputs': [1, {'output_type': 'stream'}]}):\n"
        "    comm = create_comm(target_name='jupyter.widget', data={'state': state})\n"
        "    view = {'application/vnd.jupyter.widget-view+json': {'model_id': comm.comm_id}, 'text/plain': 'odd'}\n"
        "    display(view, raw=True)\n"
        "    comm.send({'method': 'update', 'state': {'msg_id': ''}})\n"
        "    comm.close()\n"
        "create_comm(target_name='other', data=[1]).send('text')\n"
        "print('on')\n",
    )
    assert shown(service.outputs())[-1] == "on\n"


def test_malformed_displays_stop_nothing(job: Job, service: Service) -> None:
    view = "application/vnd.jupyter.widget-view+json"
    run(
        job,
        f"for view in (['a'], 'a', 3, {{}}): display({{{view!r}: view, 'text/plain': 'p'}}, raw=True)\n"
        "display({'text/plain': 'q'}, raw=True, transient=[1])\n"
        "shell = get_ipython()\n"
        "for kind in ('stream', 'display_data', 'update_display_data', 'error', 'clear_output', 'comm_msg', 'odd'):\n"
        "    for content in ('[1]', {}, {'data': None, 'text': None, 'transient': {'display_id': [1]}, 'wait': {}}):\n"
        "        if kind != 'clear_output' or content == '[1]':\n"
        "            shell.kernel.session.send(shell.kernel.iopub_socket, kind, content, parent=shell.parent_header)\n"
        "print('on')\n",
    )
    texts = shown(service.outputs())
    assert texts[:5] == ["p", "p", "p", "p", "q"]
    assert texts[-1].endswith("on\n")
