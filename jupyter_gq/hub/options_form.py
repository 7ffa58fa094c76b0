"""The options page: what a user can have, what it means, and what is impossible and why.

Rules
-----
1. Everything shown comes from the service's answer for this very user, and is escaped.
2. When the service cannot be asked, CPU only is offered, with the reason.
3. The last choice is preselected only if it would start at once; after a reclaim, or a failed start, CPU only is.
4. Where there are profiles, the chosen one decides: one that names a share (itself or by a choice) leaves nothing to
   choose, and one that names none leaves everything. A script keeps the cards so; without scripts the server says it.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

from jupyter_gq.client.http import ServiceClient, ServiceError
from jupyter_gq.client.models import Choice, Eviction, Me, PoolView
from jupyter_gq.domain.amount import ONE_GPU, format_gpus, parse_quota
from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonObject

from .admission.credentials import READ, short_token
from .admission.profiles import AS_THE_PROFILE_SAYS, NamedShares
from .admission.request import read_request

#: Seconds that the page waits for the service.
_PATIENCE = 2.0
_MIB_PER_GIB = 1024
#: `Eviction.reason` of a server that failed.
_ENDED = "ENDED"


@dataclass(frozen=True, kw_only=True, slots=True)
class Profiles:
    """The administrator's profiles, for the page."""

    #: Their part of the form, as HTML.
    form: str
    #: slug -> the shares that it names.
    shares: Mapping[str, NamedShares]


async def page(spawner: Any, profiles: Profiles | None = None) -> str:
    """The form's HTML for the user of this spawner."""
    told: dict[str, str] = {}
    try:
        me = await _ask(spawner)
        view = _view(spawner, me)
        told = {choice.gpus: choice.sentence for choice in me.choices}
    except (ServiceError, TimeoutError, ValueError) as error:
        spawner.log.warning("The options page of %s has CPU only: %s", spawner.user.name, error)
        view = _without_service(error)
    if profiles:
        view = _with_profiles(view, profiles, {**told, "0": view.cards[0].sentence})
    view = replace(view, ended=spawner.gpu_ended or view.ended)
    return _templates().get_template("gq_options.html").render(view=view)


def read(form: dict[str, list[Any]]) -> JsonObject:
    """`user_options` from the form's fields, or from a query string."""
    return {name: values[0] if len(values) == 1 else values for name, values in form.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One radio card."""

    #: The value that is sent.
    gpus: str
    title: str
    #: What one gets, such as "10 GB of GPU memory".
    detail: str
    sentence: str
    #: "now", "wait", "no", or "profile" where that depends on the profile.
    when: str
    selected: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A share of the whole, in per cent, for the drawing."""

    yours: float
    others: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolSummary:
    """The devices for notebooks."""

    name: str
    devices: int
    total: str
    free: str
    bar: Bar


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionsView:
    """What the template shows."""

    cards: list[Card]
    #: Name of the server, "" for the default one.
    server: str = ""
    me: Me | None = None
    pool: PoolSummary | None = None
    #: Per cent of the fixed quota in use.
    quota_used: float = 0
    eviction: Eviction | None = None
    eviction_at: str = ""
    #: Why there is CPU only; "" when the service answered.
    trouble: str = ""
    #: Why the last server ended, when nobody here ended it; "" otherwise.
    ended: str = ""
    profiles: Profiles | None = None
    #: What the script knows of the profiles; None where no profile names a share.
    rules: JsonObject | None = None


async def _ask(spawner: Any) -> Me:
    with short_token(spawner, READ) as token:
        service = ServiceClient(spawner.service_url, token, timeout=_PATIENCE)
        try:
            async with asyncio.timeout(_PATIENCE):
                return await service.me()
        finally:
            service.close()


def _without_service(error: Exception) -> OptionsView:
    trouble = (
        "This hub has not been set up for GPUs: your account may not use the GPU service. Ask your administrator."
        if isinstance(error, ValueError)
        else "The GPU service does not answer, so no GPU can be given out. Reload this page in a minute."
    )
    return OptionsView(cards=[_cpu_card(selected=True, sentence="Starts now.")], trouble=trouble)


def _view(spawner: Any, me: Me) -> OptionsView:
    pool = next((pool for pool in me.pools if pool.name == me.build_pool), me.pools[0] if me.pools else None)
    preselected = _preselected(spawner, me)
    taken = _taken(me)
    cards = [_card(choice, pool, choice.gpus == preselected) for choice in me.choices if choice.gpus != "0"]
    return OptionsView(
        cards=[
            _cpu_card(selected=preselected == "0", sentence="Starts now. Cells can still be sent to training."),
            *cards,
        ],
        server=spawner.name,
        me=me,
        pool=_summary(pool, me) if pool and pool.devices else None,
        quota_used=_per_cent(parse_quota(me.used), parse_quota(me.quota)),
        eviction=taken,
        eviction_at=_utc(taken.at) if taken else "",
        ended=me.last_eviction.sentence if me.last_eviction and not taken else "",
    )


def _taken(me: Me) -> Eviction | None:
    """Why the last share was taken back; None also if its server just ended."""
    return me.last_eviction if me.last_eviction and me.last_eviction.reason != _ENDED else None


def _with_profiles(view: OptionsView, profiles: Profiles, told: Mapping[str, str]) -> OptionsView:
    """The profiles and, where one of them names a share, one card more: that share."""
    amounts = {amount for named in profiles.shares.values() for amount in named.amounts}
    if not amounts:
        return replace(view, profiles=profiles)
    card = Card(
        gpus="",
        title=AS_THE_PROFILE_SAYS,
        detail="For profiles with a share of their own",
        sentence="",
        when="profile",
    )
    rules = {
        "profiles": {
            slug: {"gpus": named.gpus, "options": [[name, dict(of)] for name, of in named.options.items()]}
            for slug, named in profiles.shares.items()
        },
        "told": {amount: told[amount] for amount in sorted(amounts) if amount in told},
    }
    return replace(view, cards=[card, *view.cards], profiles=profiles, rules=rules)


def _preselected(spawner: Any, me: Me) -> str:
    if me.last_eviction is not None or spawner._failed:
        return "0"
    try:
        last = read_request(spawner.user_options, also_known=None).gpus
    except UserError:
        return "0"
    return last if any(choice.gpus == last and choice.starts_now for choice in me.choices) else "0"


def _cpu_card(*, selected: bool, sentence: str) -> Card:
    return Card(gpus="0", title="CPU only", detail="No GPU", sentence=sentence, when="now", selected=selected)


def _card(choice: Choice, pool: PoolView | None, selected: bool) -> Card:
    when = "no" if not choice.available else "now" if choice.starts_now else "wait"
    return Card(
        gpus=choice.gpus,
        title=f"{choice.gpus} GPU" if parse_quota(choice.gpus) <= ONE_GPU else f"{choice.gpus} GPUs",
        detail=_memory(choice.gpus, pool),
        sentence=choice.sentence,
        when=when,
        selected=selected and when != "no",
    )


def _memory(gpus: str, pool: PoolView | None) -> str:
    if pool is None or not pool.memory_mib:
        return ""
    mib = pool.memory_mib * parse_quota(gpus) // ONE_GPU
    amount = f"{mib / _MIB_PER_GIB:.1f}".removesuffix(".0")
    return f"{amount} GB of GPU memory"


def _summary(pool: PoolView, me: Me) -> PoolSummary:
    total, free, yours = parse_quota(pool.total), parse_quota(pool.free), parse_quota(me.used)
    used = max(0, total - free)
    mine = min(yours, used)
    return PoolSummary(
        name=pool.model or "GPU",
        devices=pool.devices,
        total=pool.total,
        free=format_gpus(free),
        bar=Bar(yours=_per_cent(mine, total), others=_per_cent(used - mine, total)),
    )


def _per_cent(part: int, whole: int) -> float:
    return round(100 * min(part, whole) / whole, 2) if whole > 0 else 0


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("jupyter_gq.hub"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        trim_blocks=True,
        lstrip_blocks=True,
    )
