"""Who leads: never two at once, whatever clocks and networks do; in the end somebody."""

import asyncio
import heapq
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gq.backends.kubernetes.api.errors import Unreachable
from jupyter_gq.backends.kubernetes.leader.election import Election, Held, Move, Times, parse_lease
from jupyter_gq.backends.kubernetes.leader.lease import Lease, Seat

TIMES = Times(duration=15, renewed_within=10, retry=2)


def an_election(identity="a"):
    return Election(identity=identity, times=TIMES)


def held(holder, version="1", duration=15.0):
    return Held(holder=holder, version=version, duration=duration)


def a_leader(now=100.0):
    election = an_election()
    assert election.next_move(None, now) is Move.CREATE
    election.record_write(held("a"), began=now, now=now + 1)
    return election


def test_where_there_is_no_lease_it_is_made_and_its_maker_leads_from_the_request_on():
    leader = a_leader(100)
    assert leader.leads(101)
    assert leader.leads(109.9)
    assert not leader.leads(110)


def test_a_leader_that_renews_leads_on():
    leader = a_leader(100)
    assert leader.next_move(held("a"), 105) is Move.RENEW
    leader.record_write(held("a", "2"), began=105, now=105)
    assert leader.leads(114)


def test_a_candidate_waits_as_long_as_the_record_changes_and_takes_it_when_it_does_not():
    candidate = an_election("b")
    assert candidate.next_move(held("a", "1"), 1000) is Move.WAIT
    assert candidate.next_move(held("a", "1"), 1014) is Move.WAIT
    assert candidate.next_move(held("a", "2"), 1014.5) is Move.WAIT
    assert candidate.next_move(held("a", "2"), 1029) is Move.WAIT
    assert candidate.next_move(held("a", "2"), 1029.5) is Move.TAKE
    assert not candidate.leads(1029.5), "not before it is written"


def test_a_candidate_waits_as_long_as_the_holder_says_if_that_is_longer():
    candidate = an_election("b")
    candidate.next_move(held("a", duration=40), 0)
    assert candidate.next_move(held("a", duration=40), 39) is Move.WAIT
    assert candidate.next_move(held("a", duration=40), 40) is Move.TAKE


def test_a_lease_that_was_given_back_is_taken_at_once():
    candidate = an_election("b")
    candidate.next_move(held("a"), 0)
    assert candidate.next_move(held("", "2"), 1) is Move.TAKE


def test_a_lease_that_was_deleted_counts_as_held_on_by_whom_it_was_seen_with():
    candidate = an_election("b")
    candidate.next_move(held("a"), 0)
    assert candidate.next_move(None, 14) is Move.WAIT
    assert candidate.next_move(None, 15) is Move.CREATE


def test_a_leader_that_could_not_renew_stops_and_goes_on_when_the_lease_is_still_its_own():
    leader = a_leader(100)
    assert not leader.leads(130)
    assert leader.next_move(held("a"), 130) is Move.RENEW
    assert not leader.leads(130)
    leader.record_write(held("a", "2"), began=130, now=131)
    assert leader.leads(131)


def test_a_leader_that_finds_another_in_its_place_stops_at_once():
    leader = a_leader(100)
    assert leader.next_move(held("b", "2"), 101) is Move.WAIT
    assert not leader.leads(101)
    assert leader.holder() == "b"


@pytest.mark.parametrize("spec", [{}, {"holderIdentity": None, "leaseDurationSeconds": None}])
def test_a_lease_that_says_nothing_is_held_by_nobody(spec):
    assert parse_lease({"metadata": {"resourceVersion": "7"}, "spec": spec}) == held("", "7", 0.0)


# --- a network that delays and loses, clocks that go wrong


class Server:
    """Compare-and-swap on one record."""

    def __init__(self):
        self.record, self._versions = None, itertools.count(1)

    def write(self, holder, version):
        """What is written then; None when the version is another one."""
        if version != (self.record.version if self.record else None):
            return None
        self.record = held(holder, str(next(self._versions)), TIMES.duration)
        return self.record


class Candidate:
    """Tries every two seconds of its own clock, and gives a try up after five."""

    def __init__(self, identity, offset, speed, fates):
        self.election = an_election(identity)
        self.clock = lambda at: offset + speed * at
        self.fates = itertools.cycle(fates)
        self.trying = 0

    def leads(self, at):
        return self.election.leads(self.clock(at))


class World:
    """Real time goes from event to event; after each of them it is counted who leads."""

    def __init__(self, candidates):
        self.server, self.candidates = Server(), candidates
        self.events, self.numbers = [], itertools.count()
        self.leaders = []
        for candidate in candidates:
            self.at(0.0, self.begin, candidate)

    def at(self, when, what, *arguments):
        heapq.heappush(self.events, (when, next(self.numbers), what, arguments))

    def play(self, end):
        while self.events[0][0] < end:
            now, _, what, arguments = heapq.heappop(self.events)
            what(now, *arguments)
            leading = [each.election.identity for each in self.candidates if each.leads(now)]
            assert len(leading) <= 1, f"{leading} lead at {now}"
            if leading and leading != self.leaders[-1:]:
                self.leaders += leading

    def begin(self, now, candidate):
        candidate.trying += 1
        pause, there, back = next(candidate.fates)
        self.at(now + 2 + pause, self.begin, candidate)
        if there is not None:
            self.at(now + there, self.read, candidate, candidate.trying, back)

    def read(self, now, candidate, trying, back):
        if back is not None:
            self.at(now + back, self.decide, candidate, trying, self.server.record)

    def decide(self, now, candidate, trying, found):
        if trying != candidate.trying:
            return  # given up: the answer came too late
        move = candidate.election.next_move(found, candidate.clock(now))
        if move is Move.WAIT:
            return
        _, there, back = next(candidate.fates)
        version = found.version if found else None
        if there is not None:
            # What was sent arrives, also when nobody waits for it any more.
            self.at(now + there, self.write, candidate, trying, version, candidate.clock(now), back)

    def write(self, now, candidate, trying, version, began, back):
        written = self.server.write(candidate.election.identity, version)
        if written is not None and back is not None:
            self.at(now + back, self.answered, candidate, trying, written, began)

    def answered(self, now, candidate, trying, written, began):
        if trying == candidate.trying:
            candidate.election.record_write(written, began, candidate.clock(now))


DELAY = st.one_of(st.just(0.01), st.just(0.01), st.none(), st.floats(0, 40))
FATES = st.lists(st.tuples(st.one_of(st.just(0.0), st.floats(0, 60)), DELAY, DELAY), min_size=1, max_size=12)
CANDIDATES = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.9, 1.1), FATES), min_size=2, max_size=3)


@given(CANDIDATES)
@settings(max_examples=150)
def test_never_do_two_lead_whatever_clocks_say_and_the_network_does(drawn):
    candidates = [Candidate(str(number), *how) for number, how in enumerate(drawn)]
    World(candidates).play(400)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.integers(1, 30))
@settings(max_examples=30)
def test_in_the_end_another_leads_where_the_leader_is_cut_off(offset, other, turns):
    fine, cut = (0.0, 0.01, 0.01), (0.0, None, None)
    leader = Candidate("leader", offset, 1.0, [fine] * 2 * turns + [cut] * 1000)
    world = World([leader, Candidate("next", other, 1.0, [(0.5, 0.02, 0.02)])])
    world.play(2 * turns + 30)
    assert world.leaders == ["leader", "next"]


# --- who is not fit to lead


class Port:
    """The cluster's side, for two services that never write at once."""

    def __init__(self):
        self.body, self._versions = None, itertools.count(1)

    async def read_lease(self, _namespace, _name):
        return self.body

    async def create_lease(self, body):
        self.body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(next(self._versions))}}
        return self.body

    replace_lease = create_lease


class Stands:
    """A service that stands for the lease, at once again and again, and says each time whether it is fit."""

    def __init__(self, port, identity, clock):
        seat = Seat(namespace="hub", name="service", identity=identity)
        times = Times(duration=15, renewed_within=10, retry=0)
        self.lease = Lease(port, seat, elapsed=lambda: clock[0], now=lambda: 0.0, times=times)
        self.unfit, self.asked = "", 0

    async def why_unfit(self):
        self.asked += 1
        return self.unfit

    async def stand(self):
        """Turns of the loop, as many as are needed; whether it leads then."""
        standing = asyncio.create_task(self.lease.acquire(self.why_unfit))
        for _ in range(20):
            await asyncio.sleep(0)
        standing.cancel()
        await asyncio.gather(standing, return_exceptions=True)
        return self.lease.leads


AWAY = "The scheduler's database 'gq' at db does not answer (no route to host). The service tries again."


@pytest.mark.asyncio
async def test_who_does_not_reach_what_a_leader_needs_leaves_the_lease_to_who_does():
    clock, port = [0.0], Port()
    cut, fit = Stands(port, "cut", clock), Stands(port, "fit", clock)
    cut.unfit = AWAY
    assert not await cut.stand()
    assert (port.body, cut.lease.waiting) == (None, AWAY)
    assert await fit.stand()
    assert not await cut.stand()
    assert cut.lease.waiting == "fit leads; this service waits for its place."


@pytest.mark.asyncio
async def test_where_nobody_is_fit_nobody_leads_and_then_the_first_that_is():
    clock, port = [0.0], Port()
    both = Stands(port, "one", clock), Stands(port, "other", clock)
    for each in both:
        each.unfit = AWAY
    for _ in range(5):
        clock[0] += 10
        assert [await each.stand() for each in both] == [False, False]
    assert port.body is None
    both[1].unfit = ""
    assert [await each.stand() for each in both] == [False, True]


@pytest.mark.asyncio
async def test_who_waits_is_not_asked_while_another_leads():
    clock, port = [0.0], Port()
    leader, waits = Stands(port, "leader", clock), Stands(port, "waits", clock)
    assert await leader.stand()
    assert not await waits.stand()
    assert (leader.asked, waits.asked) == (1, 0)
    clock[0] += 15
    assert await waits.stand()
    assert waits.asked == 1


@pytest.mark.asyncio
async def test_an_unfit_one_does_not_go_on_with_a_lease_that_it_could_not_give_back():
    clock, port = [0.0], Port()
    before, after, other = (Stands(port, name, clock) for name in ("same", "same", "other"))
    assert await before.stand()
    after.unfit = AWAY
    assert not await after.stand()
    assert not await other.stand()
    clock[0] += 15
    assert not await after.stand()
    assert await other.stand()


# --- an orderly end


class AnswersSlowly(Port):
    """A cluster that takes longer for each answer than the time between two tries, which is 0 here."""

    async def read_lease(self, namespace, name):
        await turns_of_the_loop()
        return await super().read_lease(namespace, name)

    async def replace_lease(self, body):
        await turns_of_the_loop()
        return await self.create_lease(body)


class RenewalArrivesLate(Port):
    """A cluster that handles a renewal, which nobody waits for any more, between a read and a write."""

    late = True

    async def replace_lease(self, body):
        if self.late:
            self.late = False
            raise Unreachable("The Lease is not at that version.")
        return await self.create_lease(body)


class IsAway(Port):
    """A cluster that cannot be reached when the Lease is given back."""

    async def replace_lease(self, body):
        raise Unreachable("The cluster does not answer.")


async def turns_of_the_loop():
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", [Port, AnswersSlowly, RenewalArrivesLate])
async def test_a_leader_that_ends_gives_the_lease_back(kind):
    port = kind()
    leader = Stands(port, "leader", [0.0])
    assert await leader.stand()
    assert parse_lease(port.body).holder == "leader"
    await leader.lease.release()
    assert parse_lease(port.body).holder == ""


@pytest.mark.asyncio
async def test_a_lease_that_cannot_be_given_back_is_left_to_expire_with_a_word(caplog):
    port = IsAway()
    leader = Stands(port, "leader", [0.0])
    assert await leader.stand()
    await leader.lease.release()
    assert parse_lease(port.body).holder == "leader"
    assert "the lease could not be given back: The cluster does not answer." in caplog.text
