"""What an observation means for a record: a pure table-like judgement, from what is remembered and what is seen.

Rules
-----
1. A run that the backend shows was launched, whatever we had written down: a crash between the two is mended here.
2. The end of a run is what its code did: a job that finished although it was told to stop has finished.
3. Told to pause -> back to its queue with its seniority. Told to end -> cancelled.
4. A job that vanished goes back to its queue, at most `MOST_LOST` times in a row: after a run that came further (it
   lasted for `FURTHER_AFTER` and saved its state meanwhile) it is counted anew. So a job of weeks outlives many nodes,
   and one that is the end of each of its processes does not go on for ever. A notebook never comes back by itself: its
   process is gone, so it has stopped.
5. No view of a backend is no news: nothing is concluded from a backend that could not be observed, nor from one that
   forgets (it is told again, see `act`).
6. A workload whose place was refused goes back to its queue with its seniority and backs off: each time in a row for
   twice as long. So it does not win every cycle, and its backend is not asked all the time.

See docs/decisions/0043-give-up-after-consecutive-lost-runs.md.
"""

from dataclasses import dataclass, replace

from jupyter_gq.backends.protocol import Observation, Outcome, Phase
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.states import Event, State
from jupyter_gq.domain.workload import Backoff, Kind
from jupyter_gq.domain.workload_detail import ENDED, Eviction
from jupyter_gq.store.protocol import Record

#: How often a job may vanish before it fails.
MOST_LOST = 3
FURTHER_AFTER = Seconds(600)
#: Seconds for which a workload backs off after its place was refused: at first, and at most.
FIRST_PAUSE, LONGEST_PAUSE = Seconds(20), Seconds(600)
VANISHED = "It vanished without a word"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How a run ended, as far as anybody knows."""

    outcome: Outcome
    sentence: str
    at: Instant


def judge(record: Record, seen: Observation | None, now: Instant, *, forgetful: bool) -> list[Change]:
    """The changes of one record.

    `seen`: its present run, None when the backend does not know it. `forgetful`: see `backends.capabilities`.
    """
    workload = record.workload
    changes: list[Change] = []
    state = workload.state
    if state is State.ADMITTED and seen is not None:
        changes.append(Change(workload=workload.id, event=Event.LAUNCHED))
        state = State.STARTING
    if state in {State.STARTING, State.RUNNING} and workload.stop is not None:
        # It was told to end while it was being launched.
        changes.append(Change(workload=workload.id, event=Event.STOP_REQUESTED))
        state = State.STOPPING
    if state not in {State.STARTING, State.RUNNING, State.STOPPING}:
        return changes
    if seen is None:
        # What a backend forgot is told to it again (see `act`); what it finds decides then.
        ending = Ending(outcome=Outcome.LOST, sentence=VANISHED, at=now)
        return changes if forgetful else [*changes, _ended(record, state, ending)]
    if seen.phase is Phase.ENDED:
        ending = Ending(outcome=seen.outcome or Outcome.LOST, sentence=seen.sentence, at=min(seen.since, now))
        return [*changes, _ended(record, state, ending)]
    if state is State.STARTING and seen.phase is Phase.RUNNING:
        detail = DetailChange(backoff=None) if record.detail.backoff else DetailChange()
        changes.append(Change(workload=workload.id, event=Event.STARTED, detail=detail))
    return changes


def _ended(record: Record, state: State, ending: Ending) -> Change:
    if state is State.STOPPING:
        return _stopped(record, ending)
    if ending.outcome is Outcome.REFUSED:
        return _back_off(record, ending)
    if ending.outcome is Outcome.SUCCEEDED:
        return _final(record, Event.SUCCEEDED, ending, "")
    if ending.outcome is Outcome.FAILED:
        return _told(_final(record, Event.FAILED, ending, ending.sentence), record, ending)
    if record.workload.kind is Kind.NOTEBOOK:
        if state is State.STARTING:
            return _final(record, Event.FAILED, ending, ending.sentence or "No server process came up for it.")
        return _final(record, Event.SUCCEEDED, ending, "" if ending.sentence == VANISHED else ending.sentence)
    return _interrupted(record, ending)


def _stopped(record: Record, ending: Ending) -> Change:
    """It was told to stop."""
    stop = record.workload.stop
    requeue = stop is not None and stop.requeue
    if ending.outcome is Outcome.SUCCEEDED and record.workload.kind is Kind.TRAINING:
        return _final(record, Event.SUCCEEDED, ending, "")
    if ending.outcome is Outcome.FAILED and requeue:
        return _final(record, Event.FAILED, ending, ending.sentence)
    if requeue:
        event = Event.LOST if ending.outcome is Outcome.LOST else Event.REQUEUED
        return _back_in_line(record, event, ending.at, DetailChange())
    # What the owner is told was written down with the intent.
    return _told(_final(record, Event.CANCELLED, ending, None), record, ending)


def _told(change: Change, record: Record, ending: Ending) -> Change:
    """A notebook that had to end is not asked for by its owner, whoever ended it: he is told the next time."""
    failed = ending.outcome is Outcome.FAILED and ending.sentence
    if record.workload.kind is Kind.TRAINING or not failed:
        return change
    failure = Eviction(reason=ENDED, sentence=ending.sentence, by=None, at=ending.at)
    return replace(change, detail=DetailChange(eviction=failure, sentence=ending.sentence))


def _interrupted(record: Record, ending: Ending) -> Change:
    """A job that nobody told to stop is gone before its end."""
    reason = (ending.sentence or VANISHED).rstrip(".")
    if ending.outcome is Outcome.PAUSED:
        reason = ending.sentence.rstrip(".") or "Interrupted from outside"
        told = f"{reason}. Continues by itself."
        return _back_in_line(record, Event.LOST, ending.at, DetailChange(sentence=told))
    times = 1 if _came_further(record, ending.at) else record.detail.consecutive_losses + 1
    if times > MOST_LOST:
        told = f"{reason}, for the {times}th time in a row; it is not started again."
        return _final(record, Event.FAILED, ending, told)
    told = f"{reason}. Starts again by itself ({times} of {MOST_LOST})."
    return _back_in_line(record, Event.LOST, ending.at, DetailChange(consecutive_losses=times, sentence=told))


def _came_further(record: Record, at: Instant) -> bool:
    """The run that is over lasted for long enough, and saved a state from which the next one goes on."""
    saved, started = record.workload.checkpointed_at, record.workload.started_at
    return saved is not None and started is not None and saved > started and at - started >= FURTHER_AFTER


def _back_off(record: Record, ending: Ending) -> Change:
    """Return a workload whose place was refused to its queue, with a pause that doubles with each refusal in a row."""
    before = record.detail.backoff
    times = 1 if before is None else before.times + 1
    pause = Seconds(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (times - 1)))
    backoff = Backoff(times=times, until=Instant(ending.at + pause), pause=pause, sentence=ending.sentence)
    return _back_in_line(record, Event.LOST, ending.at, DetailChange(backoff=backoff, sentence=""))


def _back_in_line(record: Record, event: Event, at: Instant, detail: DetailChange) -> Change:
    return Change(
        workload=record.workload.id,
        event=event,
        fields=WorkloadChange(placement=(), stop=None, activity=None, requeued_at=at),
        detail=detail,
    )


def _final(record: Record, event: Event, ending: Ending, sentence: str | None) -> Change:
    return Change(
        workload=record.workload.id,
        event=event,
        fields=WorkloadChange(placement=(), finished_at=ending.at),
        detail=DetailChange() if sentence is None else DetailChange(sentence=sentence),
    )
