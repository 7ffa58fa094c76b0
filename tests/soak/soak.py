"""One run of the soak test, from the start of the Hub to the report."""

import asyncio
import contextlib
import sys

from jupyter_gq.client.connection.http import ServiceError
from tests.patience import eventually

from .checks import judge_logs, judge_memory, judge_rest, memory_limit_mib, read_ends
from .cluster import troubles as cluster_troubles
from .cluster.users import ClusterUser
from .cluster.world import ClusterWorld
from .fuzz import Fuzzer
from .plan import Plan
from .report import Report, describe_machine
from .troubles import ALL, Damage, Troublemaker
from .users import Tally, User
from .watch import Seen, Watcher, fit_memory
from .world import ADMIN, World

_PROGRESS_EVERY = 10.0
#: By the place of a plan: the world, its users and its troubles.
_PLACES = {"machine": (World, User, ALL), "cluster": (ClusterWorld, ClusterUser, cluster_troubles.ALL)}


async def soak(plan: Plan) -> Report:
    """Run the plan, judge it, write the report beside the logs, and return it. All processes have ended then."""
    run = _Run(plan)
    try:
        return await run.play()
    finally:
        await run.world.stop()


class _Run:
    def __init__(self, plan: Plan) -> None:
        world, self.user, self.troubles = _PLACES[plan.place]
        self.plan, self.world = plan, world(plan)
        self.tally, self.damage, self.seen = Tally(), Damage(), Seen()
        self.watcher = Watcher(self.world, self.seen)

    async def play(self) -> Report:
        """Load, troubles, the last jobs, the judgement."""
        began = asyncio.get_running_loop().time()
        self.machine = describe_machine()
        await self.world.start()
        await self._warm_up()
        self.trouble, self.fuzzer = Troublemaker(self.world, self.damage, self.troubles), Fuzzer(self.world)
        watching = [asyncio.create_task(self.watcher.watch()), asyncio.create_task(self._tell())]
        try:
            await self._load()
            self._say("the load is over; waiting for the last jobs")
            ends = await read_ends(self.world, self.tally, self.damage)
            rest = await judge_rest(self.world, self.watcher)
            await self.watcher.see_memory()
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        report = self._report(ends)
        report.seconds = asyncio.get_running_loop().time() - began
        report.faults = [*self.tally.faults, *self.fuzzer.faults, *self.seen.faults, *ends.faults, *rest]
        report.faults += judge_memory(report.memory) + judge_logs(self.world.logs())
        report.write(self.plan.folder)
        if report.faults:
            self.world.keep_state()
        return report

    async def _warm_up(self) -> None:
        """Make the tokens of the users before the first trouble, and wait until the service answers."""
        for name in (ADMIN, *self.plan.names):
            await self.world.token(name)

        async def answers():
            with contextlib.suppress(ServiceError):
                return await client.health()

        client = await self.world.service_client(ADMIN)
        await eventually(answers, "the first answer of the service")
        client.close()

    async def _load(self) -> None:
        users = [self.user(self.world, self.plan, number, self.tally) for number in range(self.plan.users)]
        fuzzing = asyncio.create_task(self.fuzzer.fuzz())
        try:
            async with asyncio.TaskGroup() as group:
                for user in users:
                    group.create_task(user.live())
                group.create_task(self.trouble.make_trouble())
        finally:
            fuzzing.cancel()
            await asyncio.gather(fuzzing, return_exceptions=True)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_EVERY)
            memory = self.seen.memory[-1].mib if self.seen.memory else 0
            self._say(
                f"{len(self.tally.accepted)} of {self.plan.jobs} jobs accepted, "
                f"{self.tally.servers_started} servers started, {sum(self.damage.strikes.values())} troubles, "
                f"{self.fuzzer.asked} fuzzed requests, service {memory:.0f} MiB, "
                f"{len(self.tally.faults) + len(self.seen.faults)} faults"
            )

    def _say(self, text: str) -> None:
        print(f"[soak {self.plan.seed}] {text}", file=sys.stderr, flush=True)

    def _report(self, ends) -> Report:
        return Report(
            seed=self.plan.seed,
            minutes=self.plan.minutes,
            place=self.plan.place,
            database=self.plan.database,
            users=self.plan.users,
            jobs_sent=len(self.tally.sent),
            jobs_accepted=len(self.tally.accepted),
            ends=dict(ends.phases),
            runs=ends.runs,
            pieces=ends.pieces,
            servers_started=self.tally.servers_started,
            events=self.tally.events,
            retries=self.tally.retries,
            fuzzed=self.fuzzer.asked,
            comparisons=self.seen.comparisons,
            strikes=dict(self.damage.strikes),
            left_out=self.trouble.left_out,
            memory=fit_memory(self.seen.memory),
            memory_limit_mib=memory_limit_mib(),
            machine=self.machine,
        )
