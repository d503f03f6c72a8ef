"""The study as pictures: the growth with load and delay, and the lines to the real size.

Colours are those of M. Okabe and K. Ito, which colour-blind readers can distinguish; every method has its own mark as
well, and its name beside its line. The same study yields the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from snapkafka.errors import DependencyMissingError

from .methods import Alignment, Fork, Observer, Offsets, StopTheWorld, Textbook
from .outcome import Outcome
from .reach import Reach, Reached
from .study import Study
from .units import bytes_text, seconds_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Name in the picture, colour, mark, dashes.
STYLES: Final[dict[str, tuple[str, str, str, str]]] = {
    StopTheWorld.name: ("stop-the-world", "#000000", "s", "-"),
    Textbook.name: ("textbook", "#D55E00", "o", "-"),
    Alignment.name: ("alignment", "#0072B2", "^", "-"),
    Observer.name: ("observer", "#CC79A7", "v", "-"),
    Fork.name: ("fork", "#E69F00", "D", "--"),
    Offsets.name: ("snapkafka", "#009E73", "P", "-"),
}
STYLE: Final[dict[str, Any]] = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",  # text stays text: small files, sharp at any size
    "svg.hashsalt": "snapkafka",
    "savefig.dpi": 130,
}
#: Labels beside lines are at least so far apart, in points.
LABEL_GAP: Final = 14.0

#: What a panel of the sweeps shows: title, value, how the values of its axis are written, up to where it is linear.
Panel = tuple[str, Callable[[Outcome], float], Callable[[float], str], float]
PANELS: Final[tuple[Panel, ...]] = (
    ("Memory for the channels, fullest node", lambda o: o.channel_bytes, bytes_text, 1e3),
    ("Network bytes for the snapshot, without state", lambda o: o.network_bytes, bytes_text, 1e3),
    ("A message comes later by (p99)", lambda o: max(0.0, o.added_p99_s), seconds_text, 1e-3),
)


def require_matplotlib() -> None:
    """Check that matplotlib is installed.

    Raises:

    Raises:
        DependencyMissingError: it is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise DependencyMissingError(
            "drawing the pictures needs matplotlib, which is not installed", hint="run `make setup`"
        ) from error


def draw(study: Study, out: Path) -> list[Path]:
    """Write each picture as PNG and SVG; return the files."""
    require_matplotlib()
    import matplotlib as mpl

    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figures = {"sweeps": _sweeps(study), "reach": _reaches(study)}
        files = []
        for name, figure in figures.items():
            for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
                files.append(out / f"compare-{name}.{kind}")
                figure.savefig(files[-1], metadata=metadata)
    return files


# -- against load and delay ----------------------------------------------------------------------------------


def _sweeps(study: Study) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 12.0))
    figure.subplots_adjust(left=0.085, right=0.87, top=0.915, bottom=0.05, hspace=0.16, wspace=0.22)
    columns = ("messages per second on each channel", "marker delay, seconds")
    axes = figure.subplots(len(PANELS), len(columns), sharex="col", sharey="row")
    labelled: list[tuple[Axes, list[tuple[str, float]]]] = []
    for row, (title, value, write, linear) in enumerate(PANELS):
        for column, sweep in enumerate(study.sweeps):
            ax = axes[row][column]
            ends = []
            for method, (_, colour, mark, dash) in STYLES.items():
                xs = [at for at, _ in sweep.scenes]
                found = [_of(scene.outcomes, method) for _, scene in sweep.scenes]
                pairs = sorted(zip(xs, map(value, found), strict=True))
                ax.plot(*zip(*pairs, strict=True), color=colour, marker=mark, linestyle=dash, linewidth=2)
                ends.append((method, pairs[-1][1]))
            ax.set_title(title, loc="left", fontweight="bold")
            _value_axis(ax, write, linear)
            if row == len(PANELS) - 1:
                ax.set_xlabel(columns[column])
                ax.xaxis.set_major_formatter(lambda x, _: f"{x:,g}")
            if column == len(columns) - 1:
                labelled.append((ax, ends))
    load = study.sweeps[0].scenes[0][1].load
    scale = round(1 / load.scale)
    figure.suptitle(
        f"Six ways to take a snapshot of {load.nodes} processes in three layers; one incoming channel of each is late\n"
        f"messages of {load.message_bytes} B; memory and network as run, at 1/{scale:,} of the rate",
        x=0.01,
        ha="left",
        fontsize=13,
    )
    figure.draw_without_rendering()  # only then it is known where the lines end
    for ax, ends in labelled:
        _label_ends(figure, ax, ends)
    return figure


def _of(outcomes: Sequence[Outcome], method: str) -> Outcome:
    return next(outcome for outcome in outcomes if outcome.method == method)


def _value_axis(ax: Axes, write: Callable[[float], str], linear: float) -> None:
    """Draw an axis of powers of ten with a zero, since some methods need nothing at all."""
    from matplotlib.ticker import NullLocator

    ax.set_yscale("symlog", linthresh=linear, linscale=0.6)
    top = ax.get_ylim()[1]
    ticks = [0.0]
    while (ticks[-1] or linear / 10) * 10 <= top * 2:
        ticks.append((ticks[-1] or linear / 10) * 10)
    ax.set_yticks(ticks)
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(lambda y, _: write(y))
    ax.set_ylim(bottom=-0.25 * linear, top=max(top, ticks[-1]))
    ax.tick_params(labelleft=True)


def _label_ends(figure: Figure, ax: Axes, ends: list[tuple[str, float]]) -> None:
    """Write names to the right of the ends of lines, pushed apart if they would overlap."""
    points = 72.0 / figure.dpi
    box = ax.get_window_extent()
    top = (box.y1 - box.y0) * points
    ordered = sorted(ends, key=lambda end: (end[1], -list(STYLES).index(end[0])))
    places = [(float(ax.transData.transform((1.0, y))[1]) - box.y0) * points for _, y in ordered]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + LABEL_GAP)
    places[-1] = min(places[-1], top)
    for i in range(len(places) - 2, -1, -1):
        places[i] = min(places[i], places[i + 1] - LABEL_GAP)
    for (method, _), at in zip(ordered, places, strict=True):
        name, colour, _, _ = STYLES[method]
        ax.annotate(
            name,
            (1.0, 0.0),
            xycoords="axes fraction",
            xytext=(8, at),
            textcoords="offset points",
            color=colour,
            va="center",
            fontweight="bold",
            annotation_clip=False,
        )


# -- at the real size ----------------------------------------------------------------------------------------


def _reaches(study: Study) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 6.6))
    figure.subplots_adjust(left=0.075, right=0.985, top=0.84, bottom=0.09, wspace=0.14)
    for ax, reach in zip(figure.subplots(1, len(study.reaches), sharey=True), study.reaches, strict=True):
        _reach(ax, reach)
    most = max(found.bytes for reach in study.reaches for found in reach.methods)
    figure.axes[0].set_ylim(100, 30 * most)  # room for what the topmost star says
    figure.suptitle(
        "Memory of one node for the channels: measured in real buffers (filled), drawn out by a line (stars)",
        x=0.01,
        ha="left",
        fontsize=13,
    )
    return figure


def _reach(ax: Axes, reach: Reach) -> None:
    head, _, tail = reach.title.partition(" at ")
    ax.set_title(f"{head[0].upper()}{head[1:]}\nat {tail}", loc="left")
    ax.set_xscale("log")
    ax.set_yscale("log")
    real = reach.nominal_bytes
    for method in (Textbook, Observer, Offsets):
        found = reach.of(method)
        if method is not Observer or found.times > 1:  # with one node it is where the textbook is
            _reached(ax, found, real)
    ax.set_xlim(right=real * 3)
    ax.set_xlabel("bytes that come in at the node while its markers are late")
    ax.xaxis.set_major_formatter(lambda x, _: bytes_text(x))
    ax.yaxis.set_major_formatter(lambda y, _: bytes_text(y))
    ax.tick_params(labelleft=True)


def _reached(ax: Axes, found: Reached, real: float) -> None:
    """Draw points, line, the star at the real size with its interval, and its value."""
    name, colour, mark, _ = STYLES[found.method]
    over_load = found.over.startswith("byte")
    points = [(p.x, found.times * p.y) for p in found.line.points if over_load]
    _line(ax, found, [x for x, _ in points] or [real / 1e5, real / 1e2], real, colour)
    if points:
        ax.plot(*zip(*points, strict=True), mark, color=colour, markersize=8)
    low, high = found.interval
    ax.errorbar(real, found.bytes, [[found.bytes - low], [high - found.bytes]], color=colour, capsize=4)
    ax.plot([real], [found.bytes], "*", color=colour, markersize=19, markeredgecolor="white")
    if not over_load:
        within = "at any load"
    elif high - low > 1e-3 * high:
        within = f"{bytes_text(low)} to {bytes_text(high)}"
    else:
        within = "the same in every run"
    ax.annotate(
        f"{name}: {bytes_text(found.bytes)}\n{within}",
        (real, found.bytes),
        xytext=(0, 14 if over_load else -14),
        textcoords="offset points",
        ha="right",
        va="bottom" if over_load else "top",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1},
        color=colour,
        fontweight="bold",
    )


def _line(ax: Axes, found: Reached, xs: Sequence[float], real: float, colour: str) -> None:
    """Draw a line, solid where it was measured, dashed beyond."""
    low, high = min(xs), max(xs)
    flat = not found.over.startswith("byte")

    def at(x: float) -> float:
        return found.bytes if flat else found.times * found.line.at(x)

    for begin, end, dash in ((low, high, "-"), (high, real, "--")):
        steps = [begin * (end / begin) ** (step / 50) for step in range(51)]
        ax.plot(
            steps, [max(1.0, at(x)) for x in steps], dash if not flat else "--", color=colour, linewidth=1.8
        )
