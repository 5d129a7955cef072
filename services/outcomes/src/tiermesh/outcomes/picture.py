"""A report on models as a picture. Needs `tiermesh-outcomes[picture]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from tiermesh.outcomes.models import TypeReport


def draw_models(found: Sequence[TypeReport], within: float, path: Path) -> None:
    """Draws each tier's score per kind of work, with its 95% interval; a filled mark is the tier that is enough.

    Raises:
        ValueError: the file's ending is no format for pictures.
        OSError: the file cannot be written.
    """
    figure = Figure(figsize=(8, 1.2 + 0.45 * len(found)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    names = list(dict.fromkeys(score.tier for kind in found for score in kind.tiers))
    step = 0.6 / max(1, len(names))
    for n, name in enumerate(names):
        places, scores, margins, picked = [], [], [], []
        for row, kind in enumerate(found):
            for score in kind.tiers:
                if score.tier == name:
                    places.append(row + step * (n - (len(names) - 1) / 2))
                    scores.append(100 * score.score)
                    margins.append(100 * score.margin)
                    picked.append(kind.pick == name)
        color = f"C{n}"
        axes.errorbar(scores, places, xerr=margins, fmt="none", ecolor=color, elinewidth=1)
        faces = [color if chosen else "white" for chosen in picked]
        axes.scatter(scores, places, s=40, c=faces, edgecolors=color, zorder=3, label=name)
    axes.set_yticks(range(len(found)), [f"{kind.task_type} ({kind.count})" for kind in found])
    axes.invert_yaxis()
    axes.set_xlabel(f"score, % (filled: the cheapest tier within {within:g} points of the best)")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(title="tier", loc="best")
    figure.savefig(path)
