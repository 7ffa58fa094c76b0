"""Ports on which the tasks of runs meet: whoever chooses beside us does not choose the same one."""

from jupyter_gq.backends.local.ports import find_free_port

#: What torchrun and accelerate take where nothing tells them a port.
DEFAULT_OF_LAUNCHERS = 29500


def test_services_that_know_nothing_of_each_other_choose_different_ports():
    chosen = {find_free_port(f"job-{number}-1") for number in range(100)}
    assert len(chosen) > 90


def test_the_port_of_a_users_own_launcher_is_left_to_it():
    assert all(find_free_port(f"job-{number}-1") > DEFAULT_OF_LAUNCHERS for number in range(100))


def test_a_taken_port_is_passed_over_also_at_the_end_of_the_range():
    last = max((f"job-{number}" for number in range(4000)), key=lambda name: find_free_port(name))
    assert find_free_port(last, {find_free_port(last)}) != find_free_port(last)
