"""The options page: the shares that a user can choose, their meaning, and why some of them are impossible.

Rules
-----
- One source: everything on the page comes from the service's answer for this user, and is escaped.
- Without the service: if the service does not answer, the page offers CPU only, with the reason.
- Preselection: the last choice is preselected only if it would start at once; after a reclaim or a failed start,
  CPU only is preselected.
- Profiles decide: a profile that names a share (itself or by a choice) leaves no other share to choose, and a profile
  that names none leaves all. A script adjusts the cards; without scripts the server refuses choices that do not fit.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache

from jinja2 import Environment, PackageLoader, select_autoescape

from jupyter_gq.client.connection.http import ServiceClient, ServiceError
from jupyter_gq.client.models import Choice, Eviction, Me, PoolView
from jupyter_gq.domain.amount import ONE_GPU, format_gpus, parse_quota
from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonObject

from .admission.credentials import READ_SCOPES, short_lived_token
from .admission.profiles import AS_THE_PROFILE_SAYS, NamedShares
from .admission.request import read_request
from .hub_parts import AnySpawner, Form

#: Seconds for which the page waits for the service.
_SERVICE_TIMEOUT = 2.0
_MIB_PER_GIB = 1024
#: `Eviction.reason` of a server that failed.
_ENDED = "ENDED"


@dataclass(frozen=True, kw_only=True, slots=True)
class Profiles:
    """The administrator's profiles for the page."""

    #: HTML of the profiles' part of the form.
    form: str
    #: slug -> shares that the profile names.
    shares: Mapping[str, NamedShares]


async def render_page(spawner: AnySpawner, profiles: Profiles | None = None) -> str:
    """Return the HTML of the form for the user of this spawner; offer CPU only if the service does not answer."""
    sentences: dict[str, str] = {}
    try:
        me = await _fetch_me(spawner)
        view = _make_view(spawner, me)
        sentences = {choice.gpus: choice.sentence for choice in me.choices}
    except (ServiceError, TimeoutError, ValueError) as error:
        spawner.log.warning("The options page of %s offers CPU only: %s", spawner.user.name, error)
        view = _make_view_without_service(error)
    if profiles:
        view = _add_profiles(view, profiles, {**sentences, "0": view.cards[0].sentence})
    view = replace(view, ended=spawner.gpu_ended or view.ended)
    return _load_templates().get_template("gq_options.html").render(view=view)


def read_form(form: Form) -> JsonObject:
    """Return `user_options` from the fields of the form or of a query string; a list of one value becomes the value."""
    return {name: values[0] if len(values) == 1 else values for name, values in form.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """A radio card of the page."""

    #: Value that the form sends.
    gpus: str
    title: str
    #: Content of the share, such as "10 GiB of GPU memory".
    detail: str
    sentence: str
    #: Start with this choice: "now", "wait", "no", or "profile" if that depends on the profile.
    when: str
    selected: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """The widths of the usage bar, in per cent of the pool."""

    yours: float
    others: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolSummary:
    """The summary of the pool for notebooks."""

    name: str
    devices: int
    total: str
    free: str
    bar: Bar


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionsView:
    """The data of the template."""

    cards: list[Card]
    #: Name of the server, "" for the default one.
    server: str = ""
    me: Me | None = None
    pool: PoolSummary | None = None
    #: Per cent of the fixed quota in use.
    quota_used: float = 0
    eviction: Eviction | None = None
    eviction_at: str = ""
    #: Sentence on why the page offers CPU only; "" if the service answered.
    trouble: str = ""
    #: Sentence on why the last server ended, if its user did not stop it; "" otherwise.
    ended: str = ""
    profiles: Profiles | None = None
    #: Data of the profiles for the script; None if no profile names a share.
    rules: JsonObject | None = None


async def _fetch_me(spawner: AnySpawner) -> Me:
    """Return the service's description of the spawner's user: quota, choices, pools.

    Raises `TimeoutError` or `ServiceError` if the service does not answer in time or refuses, and `ValueError` if the
    user lacks the scopes.
    """
    with short_lived_token(spawner, READ_SCOPES) as token:
        service = ServiceClient(spawner.service_url, token, timeout=_SERVICE_TIMEOUT)
        try:
            async with asyncio.timeout(_SERVICE_TIMEOUT):
                return await service.me()
        finally:
            service.close()


def _make_view_without_service(error: Exception) -> OptionsView:
    """Return the data of a page that offers CPU only; `error` decides which reason the page gives."""
    trouble = (
        "This hub has not been set up for GPUs: your account may not use the GPU service. Ask your administrator."
        if isinstance(error, ValueError)
        else "The GPU service does not answer, so no GPU can be given out. Reload this page in a minute."
    )
    return OptionsView(cards=[_make_cpu_card(selected=True, sentence="")], trouble=trouble)


def _make_view(spawner: AnySpawner, me: Me) -> OptionsView:
    """Return the data of the page for this user, from the service's answer `me`."""
    pool = next((pool for pool in me.pools if pool.name == me.build_pool), me.pools[0] if me.pools else None)
    preselected = _choose_preselected(spawner, me)
    taken = _find_eviction(me)
    cards = [_make_card(choice, pool, choice.gpus == preselected) for choice in me.choices if choice.gpus != "0"]
    return OptionsView(
        cards=[
            _make_cpu_card(selected=preselected == "0", sentence="Cells can still be sent to training."),
            *cards,
        ],
        server=spawner.name,
        me=me,
        pool=_summarize_pool(pool, me) if pool and pool.devices else None,
        quota_used=_compute_percent(parse_quota(me.used), parse_quota(me.quota)),
        eviction=taken,
        eviction_at=_format_utc(taken.at) if taken else "",
        ended=me.last_eviction.sentence if me.last_eviction and not taken else "",
    )


def _find_eviction(me: Me) -> Eviction | None:
    """Return how the user's last share was taken; None if none was, or if the server only ended by itself."""
    return me.last_eviction if me.last_eviction and me.last_eviction.reason != _ENDED else None


def _add_profiles(view: OptionsView, profiles: Profiles, sentences: Mapping[str, str]) -> OptionsView:
    """Return the view with the profiles and, if one of them names a share, a card for the share of the profile.

    `sentences` explain shares, by amount.
    """
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
        "sentences": {amount: sentences[amount] for amount in sorted(amounts) if amount in sentences},
    }
    return replace(view, cards=[card, *view.cards], profiles=profiles, rules=rules)


def _choose_preselected(spawner: AnySpawner, me: Me) -> str:
    """Return the preselected share: the user's last choice if it would start at once, else "0" (CPU only).

    After an eviction or a failed start, return "0" too.
    """
    if me.last_eviction is not None or spawner._failed:
        return "0"
    try:
        last = read_request(spawner.user_options, also_known=None).gpus
    except UserError:
        return "0"
    return last if any(choice.gpus == last and choice.starts_now for choice in me.choices) else "0"


def _make_cpu_card(*, selected: bool, sentence: str) -> Card:
    return Card(gpus="0", title="CPU only", detail="No GPU", sentence=sentence, when="now", selected=selected)


def _make_card(choice: Choice, pool: PoolView | None, selected: bool) -> Card:
    """Return the card of a choice; a choice that is impossible now is never selected."""
    when = "no" if not choice.available else "now" if choice.starts_now else "wait"
    return Card(
        gpus=choice.gpus,
        title=f"{choice.gpus} GPU" if parse_quota(choice.gpus) <= ONE_GPU else f"{choice.gpus} GPUs",
        detail=_describe_memory(choice.gpus, pool),
        sentence="" if choice.sentence == "Starts now." else choice.sentence,  # the badge says so
        when=when,
        selected=selected and when != "no",
    )


def _describe_memory(gpus: str, pool: PoolView | None) -> str:
    """Return the GPU memory of a share, such as "10 GiB of GPU memory"; "" if it is unknown."""
    if pool is None or not pool.memory_mib:
        return ""
    mib = pool.memory_mib * parse_quota(gpus) // ONE_GPU
    amount = f"{mib / _MIB_PER_GIB:.1f}".removesuffix(".0")
    return f"{amount} GiB of GPU memory"


def _summarize_pool(pool: PoolView, me: Me) -> PoolSummary:
    """Return the pool's totals for the page, and the usage bar with the user's part and that of others."""
    total, free, yours = parse_quota(pool.total), parse_quota(pool.free), parse_quota(me.used)
    used = max(0, total - free)
    mine = min(yours, used)
    return PoolSummary(
        name=pool.model or "GPU",
        devices=pool.devices,
        total=pool.total,
        free=format_gpus(free),
        bar=Bar(yours=_compute_percent(mine, total), others=_compute_percent(used - mine, total)),
    )


def _compute_percent(part: int, whole: int) -> float:
    return round(100 * min(part, whole) / whole, 2) if whole > 0 else 0


def _format_utc(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


@cache
def _load_templates() -> Environment:
    """Return the Jinja environment of our templates, loaded once; it escapes all values."""
    return Environment(
        loader=PackageLoader("jupyter_gq.hub"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        trim_blocks=True,
        lstrip_blocks=True,
    )
