"""Each level at which a memory limit is enforced reaches the owner of a share with a sentence on what it means."""

from dataclasses import replace

import pytest

from jupyter_gq.client.models import NotebookView
from jupyter_gq.controller.views.workload_views import ViewContext, notebook_view
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.share_level import ShareLevel
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload_detail import WorkloadDetail
from jupyter_gq.scheduling.policy import IdleRule
from jupyter_gq.store.protocol import Record
from tests.builders import a_notebook, running


def shown(level: ShareLevel, **fields) -> NotebookView:
    """The view of a notebook as it is after its way over the API."""
    record = Record(workload=running(a_notebook("ann"), "box-0"), detail=WorkloadDetail())
    minute = Seconds(60)
    context = ViewContext(devices={}, idle=IdleRule(), return_within=minute, return_left=minute, level=level, **fields)
    return NotebookView.model_validate_json(notebook_view(record, context).model_dump_json())


@pytest.mark.parametrize("level", ShareLevel)
def test_each_level_is_in_the_api_with_its_meaning(level):
    view = shown(level)
    assert (view.enforcement, view.enforcement_sentence) == (level.value, level.meaning)
    assert shown(level, missing_limit="Only root may.").enforcement_sentence == f"{level.meaning} Only root may."


@pytest.mark.parametrize("state", [State.PENDING, State.STARTING, State.SUSPENDED, State.RESUMING])
def test_the_level_is_there_before_the_start_and_while_the_share_is_lent(state):
    record = Record(workload=replace(running(a_notebook("ann"), "box-0"), state=state), detail=WorkloadDetail())
    minute = Seconds(60)
    context = ViewContext(
        devices={}, idle=IdleRule(), return_within=minute, return_left=minute, level=ShareLevel.WATCHED
    )
    assert notebook_view(record, context).enforcement_sentence == ShareLevel.WATCHED.meaning
