"""The memory of a kernel has the end of what was printed and did not arrive, whatever was written to it before."""

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain.last_words import ROOM, SIZE, STREAMS, PrintedText

#: Lengths of texts: short ones, and those around the room that there is.
LENGTHS = st.lists(st.one_of(st.integers(0, 300), st.integers(ROOM - 3, ROOM + 3), st.just(2 * ROOM)), max_size=8)


#: Bytes of which no two longer pieces are the same.
NUMBERS = b"".join(b"%d." % number for number in range(300_000))


@given(lengths=LENGTHS, data=st.data())
def test_what_did_not_arrive_is_the_end_of_what_was_printed(lengths, data):
    memory = bytearray(SIZE)
    kept, other = (PrintedText(memory, stream) for stream in STREAMS)
    kept.begin(7, 40), other.begin(7, 43)
    other.append(b"the other stream")
    printed = b""
    for number, length in enumerate(lengths):
        printed += (text := NUMBERS[100_001 * number :][:length])
        kept.append(text)
    received = data.draw(st.integers(0, len(printed)))
    missing = printed[received:][-ROOM:]
    assert kept.read(received) == (missing, len(printed) - received > ROOM)
    assert other.read() == (b"the other stream", False)
    assert (kept.pipe, other.pipe) == ((7, 40), (7, 43))


def test_without_a_word_on_what_arrived_what_was_marked_as_sent_counts():
    kept = PrintedText(bytearray(SIZE), "stdout")
    kept.begin(7, -1)
    kept.append(b"sent")
    kept.mark_sent()
    kept.append(b"not sent")
    assert kept.read() == (b"not sent", False)
    assert kept.read(2) == (b"ntnot sent", False)


@given(header=st.binary(min_size=32, max_size=32), received=st.one_of(st.none(), st.integers()))
def test_no_header_makes_the_reader_fail(header, received):
    memory = bytearray(SIZE)
    memory[:32] = header
    assert len(PrintedText(memory, "stdout").read(received)[0]) <= ROOM
