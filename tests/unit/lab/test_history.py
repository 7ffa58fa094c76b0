"""The messages of a kernel are folded into its history and state."""

from datetime import UTC, datetime

import pytest

from jupyter_gq.lab.kernels.history import KernelRecord, RanCell

START = 1_000.0
LATER = START + 1_000


def said(kind, request, at, *, of="execute_request", shell=None, **content):
    """Return a message that a kernel published while it served `request`."""
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


def test_cells_are_in_run_order_with_their_durations():
    record = record_of(*ran("a", 1, "x = 1", 0, 2), *ran("b", 2, "x += 1", 3, 3.5))
    assert record.cells == (
        RanCell(code="x = 1", execution_count=1, seconds=2.0),
        RanCell(code="x += 1", execution_count=2, seconds=0.5),
    )
    assert record.last_active == START + 3.5


def test_running_cell_has_no_duration():
    record = record_of(*ran("a", 1, "train()", 0, 1)[:2])
    assert record.is_busy(LATER)
    assert record.cells == (RanCell(code="train()", execution_count=1),)


def test_cell_that_raised_is_marked_as_failed():
    first, second, last = ran("a", 1, "1/0", 0, 1)
    record = record_of(first, second, said("error", "a", 0.5, ename="ZeroDivisionError"), last)
    assert record.cells == (RanCell(code="1/0", execution_count=1, seconds=1.0, failed=True),)


@pytest.mark.parametrize(
    ("name", "text", "failed"),
    [
        ("stderr", "UsageError: Line magic function `%x` not found.\n", True),
        ("stderr", "50%\nUsageError: a name was expected\n", True),
        ("stdout", "UsageError: printed\n", False),
        ("stderr", "no UsageError: here\n", False),
    ],
)
def test_cell_with_a_wrong_magic_is_marked_as_failed(name, text, failed):
    first, second, last = ran("a", 1, "%x", 0, 1)
    record = record_of(first, second, said("stream", "a", 0.5, name=name, text=text), last)
    assert [cell.failed for cell in record.cells] == [failed]


def test_long_silent_request_makes_the_kernel_busy_and_is_not_in_the_history():
    record = record_of(busy("a", 1))
    assert record.is_busy(START + 6)
    record.apply(idle("a", 6))
    assert (record.is_busy(LATER), record.cells, record.last_active) == (False, (), START + 6)


def test_short_silent_requests_are_polling_and_no_use():
    record = record_of(busy("a", 1), idle("a", 5.9), busy("b", 7))
    assert not record.is_busy(START + 11.9)
    assert (record.last_active, record.is_known) == (START, True)


@pytest.mark.parametrize(
    "of", ["execute_request", "comm_msg", "complete_request", "inspect_request"], ids=lambda name: name
)
def test_any_request_but_one_about_the_kernel_may_need_the_share_once_it_is_open_for_a_second(of):
    record = record_of(busy("a", 1, of=of))
    assert (record.needs_share(START + 1.9), record.needs_share(START + 2)) == (False, True)
    record.apply(idle("a", 3, of=of))
    assert not record.needs_share(LATER)


def test_requests_about_the_kernel_do_not_need_the_share():
    for of in ("kernel_info_request", "history_request", "is_complete_request", "comm_info_request"):
        assert not record_of(busy("a", 1, of=of)).needs_share(LATER)


def test_completion_whose_end_was_lost_ends_with_the_next_request():
    record = record_of(busy("tab", 1, of="complete_request"), *ran("a", 1, "x = 1", 2, 3))
    assert not record.needs_share(LATER)


def test_unstored_request_is_replaced_by_the_next():
    record = record_of(*ran("probe", 2, "dir()", 0, 1), *ran("cell", 2, "y = 2", 2, 3))
    assert [cell.code for cell in record.cells] == ["y = 2"]


def test_lower_execution_count_begins_a_new_history():
    record = record_of(*ran("a", 4, "old", 0, 1), *ran("b", 1, "new", 2, 3))
    assert [cell.code for cell in record.cells] == ["new"]


def test_restart_clears_the_history_and_counts_as_use():
    record = record_of(*ran("a", 1, "x", 0, 1)[:2])
    record.note_restart(START + 60)
    assert (record.cells, record.is_busy(LATER), record.is_known, record.last_active) == ((), False, False, START + 60)


def test_completion_inspection_and_connections_are_no_use():
    requests = ["complete_request", "inspect_request", "kernel_info_request", "comm_info_request", "history_request"]
    record = record_of(*[message for of in requests for message in (busy("q", 5, of=of), idle("q", 6, of=of))])
    assert (record.last_active, record.is_busy(LATER), record.is_known) == (START, False, False)


def test_a_widget_s_message_is_use():
    record = record_of(busy("w", 5, of="comm_msg"), idle("w", 6, of="comm_msg"))
    assert (record.last_active, record.is_busy(LATER)) == (START + 6, False)


def test_a_widget_s_message_served_inside_a_cell_does_not_end_it():
    record = record_of(busy("cell", 0), busy("w", 1, of="comm_msg"), idle("w", 2, of="comm_msg"))
    assert record.is_busy(LATER)


def test_another_subshell_does_not_hide_a_cell_that_runs():
    record = record_of(busy("cell", 0), busy("other", 1, shell="s1"), idle("other", 2, shell="s1"))
    assert record.is_busy(LATER)
    record.apply(idle("cell", 3))
    assert not record.is_busy(LATER)


def test_next_cell_ends_a_request_whose_end_was_lost():
    record = record_of(*ran("lost", 1, "a", 0, 1)[:2], *ran("next", 2, "b", 2, 3))
    assert not record.is_busy(LATER)
    assert record.cells[0].seconds is None


def test_end_of_an_unheard_request_makes_idleness_known():
    record = record_of(idle("earlier", 1))
    assert record.is_known
    assert not record.is_busy(LATER)


def test_kernel_that_announces_its_start_is_known():
    assert record_of(said("status", None, 0, execution_state="starting")).is_known


def of_question(state, request="ours"):
    return said("status", request, 5, of="kernel_info_request", execution_state=state)


def test_kernel_that_answers_the_question_is_known():
    record = KernelRecord(START)
    record.note_question("ours")
    record.apply(of_question("busy"))
    assert not record.is_known
    record.apply(of_question("idle"))
    assert (record.is_known, record.is_busy(LATER), record.last_active) == (True, False, START)


def test_answer_to_another_question_does_not_make_the_kernel_known():
    record = KernelRecord(START)
    record.note_question("ours")
    record.apply(of_question("idle", "of a page, on the control channel"))
    assert not record.is_known


def test_question_served_inside_a_cell_does_not_end_the_cell():
    record = record_of(busy("cell", 0))
    record.note_question("ours")
    record.apply(of_question("idle"))
    assert record.is_busy(LATER)


def test_answer_from_before_a_restart_does_not_make_the_new_process_known():
    record = KernelRecord(START)
    record.note_question("ours")
    record.note_restart(START + 1)
    record.apply(of_question("idle"))
    assert not record.is_known


def test_messages_without_dates_are_accepted():
    message = busy("a", 0)
    message["header"]["date"] = "no date"
    record = record_of(message)
    assert record.is_busy(LATER)
    message = idle("a", 0)
    del message["header"]["date"]
    record.apply(message)
    assert (record.is_busy(LATER), record.last_active) == (False, START)


def test_an_execution_belongs_to_the_announced_cell_with_its_code():
    record = record_of()
    for cell_id, code in [("a", "x = 1"), ("b", "x = 1"), ("aborted", "never()"), ("a", "x = 2")]:
        record.note_cell(cell_id, code)
    for number, code in enumerate(["x = 1", "typed_in_a_console()", "x = 1", "x = 2"], 1):
        for message in ran(str(number), number, code, number, number + 0.5):
            record.apply(message)
    assert [cell.cell_id for cell in record.history.cells] == ["a", "", "b", "a"]
    record.note_restart(START + 9)
    for message in ran("5", 1, "never()", 10, 11):
        record.apply(message)
    assert [cell.cell_id for cell in record.history.cells] == [""]


def test_history_is_complete_if_nothing_is_missing_since_the_start():
    record = KernelRecord(START)
    assert not record.history.complete, "the kernel may have run cells before anybody listened"
    record.note_start()
    assert record.history.complete
    for message in ran("a", 1, "x = 1", 0, 1):
        record.apply(message)
    assert record.history.complete
    for message in ran("c", 3, "x = 3", 2, 3):
        record.apply(message)
    assert not record.history.complete
    record.note_restart(START + 4)
    assert record.history.complete
    assert record.history.cells == ()


@pytest.mark.parametrize("jump", [86400.0, -86400.0])
def test_times_move_with_a_clock_that_is_set(jump):
    record = record_of(*ran("a", 1, "x = 1", 0, 2), busy("b", 3))
    record.move(jump, LATER + jump)
    assert record.last_active == START + 2 + jump
    assert not record.is_busy(START + jump + 7)
    assert record.is_busy(START + jump + 9)
    record.apply(said("execute_input", "b", jump + 3, code="y = 1", execution_count=2))
    record.apply(idle("b", jump + 10))
    assert record.cells[-1].seconds == 7
    assert record.last_active == START + 10 + jump


def test_what_was_heard_after_the_clock_was_set_is_not_moved_into_the_future():
    record = record_of(*ran("a", 1, "x = 1", 0, 2), busy("b", 3), busy("c", 3, of="inspect_request"))
    record.move(86400.0, START + 10)
    assert record.last_active == START + 10
    assert record.needs_share(START + 11)
