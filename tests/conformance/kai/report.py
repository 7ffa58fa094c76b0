"""The verdicts as text for people and as JSON for programs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from .reasons import BY_NAME
from .verdict import Verdict

#: A disagreement shows at most so many differences.
SHOWN = 6


def is_intended(verdict: Verdict) -> bool:
    """It disagrees, and our design says so; what also needs a rule that we do not have yet is not intended."""
    return bool(verdict.reasons) and all(BY_NAME[name].intended for name in verdict.reasons)


def lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The table by file and tier, the sums, and each disagreement."""
    yield f"{'file':<46}{'tier':>5}{'cases':>7}{'agree':>7}{'%':>7}{'intended':>10}{'not yet':>9}{'open':>6}"
    groups = sorted({(verdict.file, verdict.tier) for verdict in verdicts})
    for file, tier in groups:
        yield _row(file, tier, [v for v in verdicts if (v.file, v.tier) == (file, tier)])
    for tier in sorted({verdict.tier for verdict in verdicts}):
        yield _row("all", tier, [v for v in verdicts if v.tier == tier])
    elsewhere = [v for v in verdicts if v.agrees and v.elsewhere]
    yield f"Cases that agree in status, with tasks on another node than the peer's: {len(elsewhere)}."
    without = sum(v.agrees and v.no_step for v in verdicts)
    yield f"Cases that agree because nothing was to be done, by a step that we do not have: {without}."
    yield from _by_reason(verdicts)
    for verdict in verdicts:
        if not verdict.agrees:
            yield from _disagreement(verdict)


def _row(file: str, tier: int, verdicts: Sequence[Verdict]) -> str:
    agree = sum(v.agrees for v in verdicts)
    intended = sum(is_intended(v) for v in verdicts)
    explained = sum(bool(v.reasons) for v in verdicts)
    left = len(verdicts) - agree - explained
    return (
        f"{file:<46}{tier:>5}{len(verdicts):>7}{agree:>7}{100 * agree / len(verdicts):>7.1f}"
        f"{intended:>10}{explained - intended:>9}{left:>6}"
    )


def _by_reason(verdicts: Sequence[Verdict]) -> Iterator[str]:
    counts = Counter(name for verdict in verdicts for name in verdict.reasons)
    yield ""
    yield "Disagreements by reason (a case may have several):"
    for name, count in counts.most_common():
        kind = "intended" if BY_NAME[name].intended else "not yet"
        yield f"  {count:>4}  {name} ({kind}): {BY_NAME[name].sentence}"
    yield f"  {sum(not v.agrees and not v.reasons for v in verdicts):>4}  without a reason"


def _disagreement(verdict: Verdict) -> Iterator[str]:
    yield ""
    yield f"{verdict.file}, tier {verdict.tier}: {verdict.id}"
    for difference in verdict.differences[:SHOWN]:
        yield f"    {difference.what}: expected {difference.expected}, ours {difference.ours}"
    if len(verdict.differences) > SHOWN:
        yield f"    and {len(verdict.differences) - SHOWN} more"
    for name in verdict.reasons:
        yield f"    {name}: {BY_NAME[name].sentence}"
    if not verdict.reasons:
        yield "    no reason known"


def as_json(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Sums by tier, and every disagreement with its reasons."""
    tiers = {
        str(tier): {
            "cases": sum(v.tier == tier for v in verdicts),
            "agree": sum(v.tier == tier and v.agrees for v in verdicts),
            "intended": sum(v.tier == tier and is_intended(v) for v in verdicts),
            "on_another_node": sum(v.tier == tier and v.agrees and v.elsewhere > 0 for v in verdicts),
            "without_step": sum(v.tier == tier and v.agrees and v.no_step for v in verdicts),
        }
        for tier in sorted({verdict.tier for verdict in verdicts})
    }
    disagreements = [
        {
            "file": v.file,
            "tier": v.tier,
            "case": v.id,
            "intended": is_intended(v),
            "reasons": [{"name": name, "sentence": BY_NAME[name].sentence} for name in v.reasons],
            "differences": [{"what": d.what, "expected": d.expected, "ours": d.ours} for d in v.differences],
        }
        for v in verdicts
        if not v.agrees
    ]
    return {"tiers": tiers, "disagreements": disagreements}
