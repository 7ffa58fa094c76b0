"""The lists of an overview, as clients read them."""

from jupyter_gq.client.models import QueueList


def test_a_user_of_no_queue_is_not_asked_for_one() -> None:
    assert QueueList(queues=[]).ask_for_one("--queue") == (
        "You may use no training queue. Ask your administrator for one."
    )
