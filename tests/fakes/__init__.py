"""Named doubles, each named by what goes wrong with it. They keep the protocols' guarantees unless a name says no."""

from .dependencies import FakeBundles, FakeProbe, FixedSettings, SharedBundles
from .machine import FakeBackend, FakeRun, FakeServers, ServersArePods, a_node, environment_of
from .stores import (
    StoreGoesAway,
    StoreIsFull,
    StoreLosesAnAnswer,
    StoreLosesTheRace,
    StoreOfAServiceThatDies,
    StoreTakesNoOutputs,
)
from .time_and_death import FixedClock, Fuse, ServiceKilled, counting
from .trouble import (
    CannotBeObserved,
    DiesDuringStart,
    FinishesAnyway,
    ForgetsEverything,
    HasNoRoom,
    NeverStops,
    OneLaunchIsDefective,
    PlaceIsTaken,
    PodsAreLeftBehind,
    RefusesEveryLaunch,
    RunsPods,
    SharesOnSomeNodes,
    StopsTooLate,
)

__all__ = [
    "CannotBeObserved",
    "DiesDuringStart",
    "FakeBackend",
    "FakeBundles",
    "FakeProbe",
    "FakeRun",
    "FakeServers",
    "FinishesAnyway",
    "FixedClock",
    "FixedSettings",
    "ForgetsEverything",
    "Fuse",
    "HasNoRoom",
    "NeverStops",
    "OneLaunchIsDefective",
    "PlaceIsTaken",
    "PodsAreLeftBehind",
    "RefusesEveryLaunch",
    "RunsPods",
    "ServersArePods",
    "ServiceKilled",
    "SharedBundles",
    "SharesOnSomeNodes",
    "StopsTooLate",
    "StoreGoesAway",
    "StoreIsFull",
    "StoreLosesAnAnswer",
    "StoreLosesTheRace",
    "StoreOfAServiceThatDies",
    "StoreTakesNoOutputs",
    "a_node",
    "counting",
    "environment_of",
]
