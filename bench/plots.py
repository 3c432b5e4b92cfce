"""The plots of docs/performance.md, as small SVG files.

Invariant: the same results give the same file, byte for byte.

    plot_bars("gpt2: to a NumPy array", rows, Path("docs/plots/gpt2-whole.svg"))
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

from bench.peers import PEERS
from bench.tables import Row, speed

SHOWN = 7
"""Peers in a plot: the quickest ones."""


def plot_bars(title: str, rows: list[Row], path: Path) -> None:
    """Plot MB/s: a group of bars for each text, a bar for each of the quickest peers with its first form of text."""
    rows = [row for row in rows if row["form"] == PEERS[row["peer"]].forms[0]]
    cases = list(dict.fromkeys(row["case"] for row in rows))
    speeds = {(row["peer"], row["case"]): speed(row).median for row in rows}
    peers = sorted({row["peer"] for row in rows}, key=lambda peer: -sum(speeds.get((peer, case), 0) for case in cases))
    settings = {"svg.hashsalt": path.stem, "svg.fonttype": "none", "font.size": 9}
    with matplotlib.rc_context(settings):
        figure, axes = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
        width = 0.8 / SHOWN
        for index, peer in enumerate(peers[:SHOWN]):
            heights = [speeds.get((peer, case), 0) for case in cases]
            places = [place + (index - (SHOWN - 1) / 2) * width for place in range(len(cases))]
            axes.bar(places, heights, width, label=peer)
        axes.set_xticks(range(len(cases)), [case.removesuffix(", chunks") for case in cases])
        axes.set_ylabel("MB/s")
        axes.set_title(title)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, ncols=2)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
