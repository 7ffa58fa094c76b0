"""What a kernel published, folded into its history and state."""

from datetime import UTC, datetime

from jupyter_gq.lab.history import KernelRecord, RanCell

START = 1_000.0


def said(kind, request, at, *, of="execute_request", shell=None, **content):
    """A message that a kernel published while it served `request`."""
    parent = {"msg_id": request, "msg_type": of} | ({"subshell_id": shell} if shell else {})
    return {
        "header": {"msg_type": kind, "date": datetime.fromtimestamp(START + at, UTC)},
        "parent_header": parent if request else {},
        "content": content,
    }


def busy(request, at, **options):
    return said("status", request, at, execution_state="busy", **options)


def idle(request, at, **options):
    return said("status", request, at, execution_state="idle", **options)


def ran(request, count, code, begin, end):
    """Return all messages that are published about a cell."""
    return [
        busy(request, begin),
        said("execute_input", request, begin, code=code, execution_count=count),
        idle(request, end),
    ]


def record_of(*messages):
    record = KernelRecord(START)
    for message in messages:
        record.apply(message)
    return record


def test_cells_stand_in_run_order_with_their_durations():
    record = record_of(*ran("a", 1, "x = 1", 0, 2), *ran("b", 2, "x += 1", 3, 3.5))
    assert record.cells == (
        RanCell(code="x = 1", execution_count=1, seconds=2.0),
        RanCell(code="x += 1", execution_count=2, seconds=0.5),
    )
    assert record.last_active == START + 3.5


def test_a_cell_that_runs_is_there_without_a_duration():
    record = record_of(*ran("a", 1, "train()", 0, 1)[:2])
    assert record.busy
    assert record.cells == (RanCell(code="train()", execution_count=1),)


def test_an_error_is_remembered():
    first, second, last = ran("a", 1, "1/0", 0, 1)
    record = record_of(first, second, said("error", "a", 0.5, ename="ZeroDivisionError"), last)
    assert record.cells == (RanCell(code="1/0", execution_count=1, seconds=1.0, failed=True),)


def test_a_silent_request_is_work_but_no_history():
    record = record_of(busy("a", 1))
    assert record.busy
    record.apply(idle("a", 2))
    assert (record.busy, record.cells, record.last_active) == (False, (), START + 2)


def test_a_request_that_was_not_stored_is_replaced_by_the_next():
    record = record_of(*ran("probe", 2, "dir()", 0, 1), *ran("cell", 2, "y = 2", 2, 3))
    assert [cell.code for cell in record.cells] == ["y = 2"]


def test_a_count_that_goes_down_begins_anew():
    record = record_of(*ran("a", 4, "old", 0, 1), *ran("b", 1, "new", 2, 3))
    assert [cell.code for cell in record.cells] == ["new"]


def test_a_restart_forgets_what_ran_and_counts_as_use():
    record = record_of(*ran("a", 1, "x", 0, 1)[:2])
    record.note_restart(START + 60)
    assert (record.cells, record.busy, record.is_known, record.last_active) == ((), False, False, START + 60)


def test_completion_inspection_and_connections_are_no_use():
    requests = ["complete_request", "inspect_request", "kernel_info_request", "comm_info_request", "history_request"]
    record = record_of(*[message for of in requests for message in (busy("q", 5, of=of), idle("q", 6, of=of))])
    assert (record.last_active, record.busy, record.is_known) == (START, False, False)


def test_a_widget_s_message_is_use():
    record = record_of(busy("w", 5, of="comm_msg"), idle("w", 6, of="comm_msg"))
    assert (record.last_active, record.busy) == (START + 6, False)


def test_a_widget_s_message_served_inside_a_cell_does_not_end_it():
    record = record_of(busy("cell", 0), busy("w", 1, of="comm_msg"), idle("w", 2, of="comm_msg"))
    assert record.busy


def test_another_subshell_does_not_hide_a_cell_that_runs():
    record = record_of(busy("cell", 0), busy("other", 1, shell="s1"), idle("other", 2, shell="s1"))
    assert record.busy
    record.apply(idle("cell", 3))
    assert not record.busy


def test_a_lost_end_is_made_up_for_by_the_next_cell():
    record = record_of(*ran("lost", 1, "a", 0, 1)[:2], *ran("next", 2, "b", 2, 3))
    assert not record.busy
    assert record.cells[0].seconds is None


def test_the_end_of_a_request_from_before_we_listened_is_knowledge_of_idleness():
    record = record_of(idle("earlier", 1))
    assert record.is_known
    assert not record.busy


def test_a_kernel_that_says_it_starts_is_heard():
    assert record_of(said("status", None, 0, execution_state="starting")).is_known


def of_question(state, request="ours"):
    return said("status", request, 5, of="kernel_info_request", execution_state=state)


def test_a_kernel_that_serves_our_question_is_heard():
    record = KernelRecord(START)
    record.note_question("ours")
    record.apply(of_question("busy"))
    assert not record.is_known
    record.apply(of_question("idle"))
    assert (record.is_known, record.busy, record.last_active) == (True, False, START)


def test_what_others_ask_tells_nothing_of_the_main_shell():
    record = KernelRecord(START)
    record.note_question("ours")
    record.apply(of_question("idle", "of a page, on the control channel"))
    assert not record.is_known


def test_a_question_that_is_served_inside_a_cell_does_not_end_it():
    record = record_of(busy("cell", 0))
    record.note_question("ours")
    record.apply(of_question("idle"))
    assert record.busy


def test_an_answer_from_before_a_restart_tells_nothing_of_the_new_process():
    record = KernelRecord(START)
    record.note_question("ours")
    record.note_restart(START + 1)
    record.apply(of_question("idle"))
    assert not record.is_known


def test_kernels_without_dates_are_borne_with():
    message = busy("a", 0)
    message["header"]["date"] = "no date"
    record = record_of(message)
    assert record.busy
    message = idle("a", 0)
    del message["header"]["date"]
    record.apply(message)
    assert (record.busy, record.last_active) == (False, START)
