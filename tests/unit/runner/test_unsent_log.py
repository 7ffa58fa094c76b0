"""What a pod has printed is sent part by part: masked, in whole characters, and never more than fits in memory."""

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.runner.mask import Mask
from jupyter_gq.runner.pod import unsent_log
from jupyter_gq.runner.pod.unsent_log import UnsentLog

SECRET = "hf_abcdefgh"


def send_all(unsent, mask=None, *, last=False):
    parts = []
    while part := unsent.take(mask or Mask(), last=last):
        parts.append((unsent.start, part))
        unsent.confirm()
    return parts


def test_a_part_is_offered_until_it_is_confirmed():
    unsent = UnsentLog()
    unsent.add(b"one\n")
    assert unsent.take(Mask()) == b"one\n"
    unsent.add(b"two\n")
    assert (unsent.start, unsent.take(Mask()), len(unsent)) == (0, b"one\n", 8)
    unsent.confirm()
    assert (unsent.start, unsent.take(Mask())) == (4, b"two\n")


@given(
    st.lists(st.sampled_from(["ä🔥", "x", "\n", SECRET, SECRET[:5], "z" * 50])), st.integers(1, 40), st.integers(1, 9)
)
def test_parts_are_the_masked_text_however_it_was_cut(words, size, piece):
    text, mask, unsent = "".join(words), Mask([SECRET]), UnsentLog()
    content = text.encode()
    before, unsent_log.PART = unsent_log.PART, size
    try:
        parts = []
        for begin in range(0, len(content), piece):
            unsent.add(content[begin:][:piece])
            parts += send_all(unsent, mask)
        parts += send_all(unsent, mask, last=True)
    finally:
        unsent_log.PART = before
    assert b"".join(part for _, part in parts).decode() == mask.hide(text)
    assert [start for start, _ in parts] == [sum(len(part) for _, part in parts[:n]) for n in range(len(parts))]
    assert all(part.decode() for _, part in parts), "a part has whole characters"


def test_bytes_that_are_no_text_are_replaced():
    unsent = UnsentLog()
    unsent.add(b"a\xff\n\xc3")
    assert b"".join(part for _, part in send_all(unsent)).decode() == "a\ufffd\n"
    assert b"".join(part for _, part in send_all(unsent, last=True)).decode() == "\ufffd"


def test_a_job_that_prints_faster_than_can_be_sent_loses_the_oldest_and_a_line_says_so(monkeypatch):
    monkeypatch.setattr(unsent_log, "MOST_UNSENT", 10)
    unsent = UnsentLog()
    for _ in range(3):
        unsent.add(b"12345678")
    text = b"".join(part for _, part in send_all(unsent)).decode()
    assert text == "\n[14 bytes of the log are missing: more was printed than was sent]\n7812345678"
