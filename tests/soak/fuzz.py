"""Requests that Schemathesis makes from the service's OpenAPI document, wrong ones and right ones, beside the load.

They carry the token of a user who has nothing, or none. Right requests that would run a program or change the
cluster are left out: their effects are checked elsewhere (`tests/api/test_any_request.py`).
"""

import asyncio
import itertools
import warnings

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode

from jupyter_gq.api.routes import ROUTES, describe_api

from .troubles import EXPLAINED_STATUSES
from .world import World

_EVERY = 0.5
_NOBODY = "fuzz"
_ASKED = [route for route in ROUTES if route.path != "events"]


class Fuzzer:
    """Sends requests until it is cancelled."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.plan.random("fuzz")
        self._schema = schemathesis.openapi.from_dict(describe_api())
        self.asked = 0
        self.faults: list[str] = []

    async def fuzz(self) -> None:
        """Send a few requests to one route after the other, again and again."""
        token = await self._world.token(_NOBODY)
        for route in itertools.cycle(_ASKED):
            wrong = self._random.random() < 0.7 or (route.method, route.path) == ("POST", "jobs")
            mode = GenerationMode.NEGATIVE if wrong else GenerationMode.POSITIVE
            headers = {"Authorization": f"token {token}"} if self._random.random() < 0.8 else {}
            seed = self._random.getrandbits(32)
            await asyncio.to_thread(self._ask, self._schema[f"/api/v1/{route.path}"][route.method], mode, headers, seed)
            await asyncio.sleep(_EVERY)

    def _ask(self, operation, mode: GenerationMode, headers: dict[str, str], seed: int) -> None:
        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=2,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(mode))
        def ask(case) -> None:
            if case.query:
                case.query.pop("wait", None)  # a long wait is no error
            try:
                answer = case.call(base_url=self._world.service_url.rstrip("/"), headers=headers, timeout=30)
            except requests.RequestException:
                return
            self.asked += 1
            if answer.status_code >= 500 and answer.status_code not in EXPLAINED_STATUSES:
                about = f"{answer.status_code} to {operation.method.upper()} {operation.path}: {answer.text[:200]}"
                self.faults.append(f"a fuzzed request was answered {about}")

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ask()
            except hypothesis.errors.Unsatisfiable:
                return  # nothing about this request can be wrong
