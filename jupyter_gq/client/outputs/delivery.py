"""How a job's runner delivers outputs and says that it is alive. No pydantic: each start waits for it."""

import json
from collections.abc import Iterator, Sequence

from jupyter_gq.client.connection.transport import Transport, join_path
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.output_bounds import measure_json

#: Limits of one request: pieces, and about as many bytes, as `output_bounds.measure_json` measures (one larger piece
#: goes alone).
MOST_PIECES = 500
MOST_BYTES = 4 * 1024 * 1024


class Delivery:
    """The channel of one job to the service, with the job's own token.

    The calls raise `ServiceUnavailable` if nobody answers (keep the pieces, try again later) and `ServiceError` if the
    service refuses: 401 = this token is not (or no longer) that of the job, 404 = the job is gone.
    """

    def __init__(self, url: str, job_id: str, token: str, timeout: float = 20.0) -> None:
        self._transport = Transport(url, token, timeout)
        self._job = job_id

    async def send(self, events: Sequence[JsonObject]) -> int:
        """Send pieces of output in order; return the number of the last piece that the service has stored.

        Sending a piece again is harmless. If the number is below the last piece sent, the service lacks an earlier
        piece: continue with the piece after that number. An empty list only asks for the number.
        """
        stored = 0
        for batch in _batches(events):
            answer = await self._post("outputs", b'{"events":[' + b",".join(batch) + b"]}")
            stored = int(json.loads(answer)["last_seq"])
        return stored

    async def heartbeat(
        self, run: int, fraction: float | None = None, text: str | None = None, saved_at: float | None = None
    ) -> None:
        """Report that run number `run` is alive, with its progress and the time of its last saved state, if known.

        `fraction` is from 0 to 1, `text` says the progress in words, and `saved_at` is in seconds since the epoch.
        """
        progress = None if fraction is None and text is None else {"fraction": fraction, "text": text or ""}
        beat = {"run": run, "progress": progress, "saved_at": saved_at}
        await self._post("heartbeat", json.dumps(beat).encode())

    def close(self) -> None:
        """Close the connections to the service; the next call opens new ones."""
        self._transport.close()

    async def _post(self, what: str, body: bytes) -> bytes:
        answer = await self._transport.request("POST", join_path("jobs", self._job, what), body=body)
        return answer.body


def _batches(events: Sequence[JsonObject]) -> Iterator[list[bytes]]:
    """Yield the pieces as JSON, in batches that each fit into one request; without pieces, yield one empty batch.

    A question mark replaces a lone surrogate, which UTF-8 does not have.
    """
    batch: list[bytes] = []
    size = 0
    for event in events:
        text = json.dumps(event, ensure_ascii=False)
        measured = measure_json(text)
        if batch and (len(batch) == MOST_PIECES or size + measured > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(text.encode("utf-8", "replace"))
        size += measured
    if batch or not events:
        yield batch
