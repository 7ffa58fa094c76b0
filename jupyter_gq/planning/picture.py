"""The picture of a replay: allocation and waiting by queue over time, and the mean wait of each queue.

- Colours: the queues that used most have a colour each; all others share one grey.
- Allocation: what a queue holds within its guarantee is solid. What it borrowed has the same colour, pale, and stands
  above the line.
- Time: all values are means over equal parts of the trace, so that thousands of jobs stay readable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from jupyter_gq.domain.amount import MilliGpu
from jupyter_gq.simulation.figures import ReplayResult
from jupyter_gq.simulation.history import Steps

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6BB1", "#B8A500")
_OTHERS = "#9AA0A6"
_INK, _FAINT = "#202124", "#DADCE0"
_BINS = 360
_PALE = 0.38
_DAY, _HOUR, _MINUTE = 86_400, 3600, 60


@dataclass(frozen=True, kw_only=True, slots=True)
class _Band:
    """Queues that share a colour, and the name of that colour in the legend."""

    label: str
    colour: str
    queues: tuple[str, ...]


def draw(file: Path, ours: ReplayResult, guarantees: Mapping[str, MilliGpu], static: ReplayResult) -> None:
    """Draw allocation and waiting over time and the mean waits, and write the picture to a PNG, SVG or PDF file.

    The name of the file decides the format. Raises `OSError` if the file cannot be written, and `ValueError` for a name
    of another kind.
    """
    bands = _bands(ours)
    figure = Figure(figsize=(11.5, 10.5), dpi=130, facecolor="white", layout=ConstrainedLayoutEngine(h_pad=0.12))
    FigureCanvasAgg(figure)
    allocation, waiting, bars = figure.subplots(3, 1, height_ratios=(5, 3, _bar_height(bands)))
    waiting.sharex(allocation)
    width, unit = _unit(ours.end - ours.start)
    middle = [(index + 0.5) * (ours.end - ours.start) / _BINS / width for index in range(_BINS)]
    _draw_allocation(allocation, middle, bands, ours, guarantees)
    _draw_waiting(waiting, middle, bands, ours, static)
    waiting.set_xlabel(f"{unit} since the first submission")
    allocation.set_xlim(0, (ours.end - ours.start) / width)
    _draw_bars(bars, bands, ours, static)
    figure.savefig(file)


def _bands(ours: ReplayResult) -> list[_Band]:
    """Return one band for each queue, those that used most first, if there are colours for all.

    Otherwise the queues that used least share one grey band, so that the other bands have all colours but one.
    """
    order = sorted(ours.by_queue, key=lambda name: (-ours.by_queue[name].used_gpu_hours, name))
    own = order if len(order) <= len(_COLOURS) else order[: len(_COLOURS) - 1]
    rest = order[len(own) :]
    bands = [_Band(label=name, colour=_COLOURS[i], queues=(name,)) for i, name in enumerate(own)]
    if rest:
        bands.append(_Band(label=f"{len(rest)} other queues", colour=_OTHERS, queues=tuple(rest)))
    return bands


def _draw_allocation(
    axes: Axes, middle: Sequence[float], bands: Sequence[_Band], ours: ReplayResult, guarantees: Mapping[str, MilliGpu]
) -> None:
    """Draw how many GPUs each band holds over time, within its guarantee and borrowed."""
    within, borrowed = [], []
    for band in bands:
        held = {name: _gpus(ours.allocated[name], ours) for name in band.queues}
        below = [[min(value, guarantees[name] / 1000) for value in values] for name, values in held.items()]
        within.append(_sum(below))
        borrowed.append([max(0.0, a - w) for a, w in zip(_sum(list(held.values())), within[-1], strict=True)])
    colours = [band.colour for band in bands]
    pale = [_pale(colour) for colour in colours]
    axes.stackplot(middle, *within, *borrowed, colors=[*colours, *pale], linewidth=0)
    axes.plot(middle, _sum(within), color=_INK, linewidth=0.9)
    size = ours.milli / 1000
    axes.axhline(size, color=_INK, linewidth=1.1, linestyle=(0, (4, 3)))
    axes.set_ylim(0, size * 1.1)
    axes.annotate(
        f"{size:g} GPUs, {ours.used_percent:.0f} % used",
        (0.995, size),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=9,
        color=_INK,
    )
    _title(axes, "GPUs held", "solid: within the guarantee of the queue; pale, above the line: borrowed")
    _style(axes, "GPUs")
    axes.tick_params(labelbottom=False)
    handles = [Patch(facecolor=band.colour, label=band.label) for band in bands]
    axes.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(1.005, 1.0), frameon=False, fontsize=9, borderaxespad=0
    )


def _draw_waiting(
    axes: Axes, middle: Sequence[float], bands: Sequence[_Band], ours: ReplayResult, static: ReplayResult
) -> None:
    """Draw how many GPUs each band waits for over time, and as a line the sum under static quotas."""
    stacks = [_sum([_gpus(ours.waiting[name], ours) for name in band.queues]) for band in bands]
    axes.stackplot(middle, *stacks, colors=[band.colour for band in bands], linewidth=0)
    before = _sum([_gpus(steps, ours) for steps in static.waiting.values()])
    axes.plot(middle, before, color=_INK, linewidth=1.0, linestyle=(0, (1, 1.5)), label=_static_label(static))
    axes.set_ylim(0, max(1.0, *_sum(stacks), *before) * 1.08)
    _title(axes, "GPUs waited for", "by jobs that were there and did not run")
    axes.legend(loc="upper left", bbox_to_anchor=(1.005, 1.0), frameon=False, fontsize=9, borderaxespad=0)
    _style(axes, "GPUs")


def _draw_bars(axes: Axes, bands: Sequence[_Band], ours: ReplayResult, static: ReplayResult) -> None:
    """Draw the mean wait of each queue and of all jobs as bars, with marks for those under static quotas."""
    names = [name for band in bands for name in band.queues]
    colours = {name: band.colour for band in bands for name in band.queues}
    waits = [ours.by_queue[name].mean_wait for name in names] + [ours.total.mean_wait]
    before = [static.by_queue[name].mean_wait for name in names] + [static.total.mean_wait]
    width, unit = _wait_unit(max(*waits, *before))
    rows = range(len(names) + 1)
    axes.barh(rows, [w / width for w in waits], height=0.62, color=[*(colours[name] for name in names), _INK], zorder=2)
    axes.scatter(
        [w / width for w in before], rows, marker="|", s=110, color=_INK, linewidth=1.6, zorder=3,
        label=_static_label(static),
    )  # fmt: skip
    axes.set_yticks(list(rows), [*names, "all jobs"], fontsize=8 if len(names) > 8 else 9)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    _title(axes, "Mean wait of a job", "before its first start and while paused")
    axes.legend(loc="upper left", bbox_to_anchor=(1.005, 1.0), frameon=False, fontsize=9, borderaxespad=0)
    _style(axes, "")
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=_FAINT, linewidth=0.7)
    axes.set_xlabel(unit)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _static_label(static: ReplayResult) -> str:
    return f"static quotas, {static.milli / 1000:g} GPUs"


def _bar_height(bands: Sequence[_Band]) -> float:
    """Return the height of the part with the bars, relative to the other two parts; it grows with the queues."""
    return 1.2 + 0.16 * sum(len(band.queues) for band in bands)


def _gpus(steps: Steps, ours: ReplayResult) -> list[float]:
    """Return an amount over time in GPUs: the mean of each of `_BINS` equal parts of the trace."""
    return [value / 1000 for value in steps.means(ours.start, ours.end, _BINS)]


def _sum(stacks: Sequence[Sequence[float]]) -> list[float]:
    """Return the sum of several curves of equal length, point by point."""
    return [sum(column) for column in zip(*stacks, strict=True)]


def _unit(span: float) -> tuple[float, str]:
    """Return the length in seconds and the name of the unit for a time axis of `span` seconds."""
    if span > 3 * _DAY:
        return _DAY, "Days"
    return (_HOUR, "Hours") if span > 3 * _HOUR else (_MINUTE, "Minutes")


def _wait_unit(longest: float) -> tuple[float, str]:
    """Return the length in seconds and the name of the unit for waits of up to `longest` seconds."""
    if longest > 3 * _HOUR:
        return _HOUR, "hours"
    return (_MINUTE, "minutes") if longest > 3 * _MINUTE else (1, "seconds")


def _pale(colour: str) -> str:
    """Return the hexadecimal colour mixed with white; a transparent one would let the grid show through."""
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - (255 - part) * _PALE):02x}" for part in parts)


def _title(axes: Axes, title: str, explanation: str) -> None:
    """Set the title of a part of the picture and, on the right, its explanation."""
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=_INK, pad=8)
    axes.set_title(explanation, loc="right", fontsize=9, color="#5F6368", pad=8)


def _style(axes: Axes, label: str) -> None:
    """Set colours and grid of a part of the picture, and `label` as the name of its vertical axis."""
    axes.set_ylabel(label, color=_INK)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_FAINT)
    axes.tick_params(colors=_INK, length=0, labelsize=9)
    axes.grid(axis="y", color=_FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    if label:
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
