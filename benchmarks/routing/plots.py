"""Cost against quality, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl

from routing.measures import Measured

mpl.use("Agg")
from matplotlib import pyplot as plt

COLOURS = {
    "tiermesh": "#0b6e4f",
    "tiermesh_plain": "#68a691",
    "tfidf": "#c05621",
    "length": "#2b6cb0",
    "random": "#718096",
    "oracle": "#a0aec0",
    "minilm": "#805ad5",
    "tiermesh_minilm": "#b83280",
}


def draw(title: str, measured: Mapping[str, Measured], folder: Path, stem: str) -> list[Path]:
    """Draws one curve for each router and returns the files written: PNG and SVG."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, curve in measured.items():
        axes.plot(
            curve.shares * 100,
            curve.quality * 100,
            label=f"{name} (APGR {curve.apgr:.3f})",
            color=COLOURS.get(name),
            linestyle="--" if name in {"random", "oracle"} else "-",
        )
    axes.set(title=title, xlabel="requests sent to the strong model (%)", ylabel="right answers (%)", xlim=(0, 100))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", frameon=False)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{stem}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=130)
    plt.close(figure)
    return paths
