"""Charts as PNG pictures, drawn by matplotlib where it is installed."""

from __future__ import annotations

import io
from collections.abc import Mapping

from mcp_bridge import ToolError

ACCENT = "#417690"


def bar_chart(figures: Mapping[str, float], title: str) -> bytes:
    """A PNG picture with one bar for each figure; a ToolError where matplotlib is missing."""
    try:
        # Imported here since it is optional and slow to import. The Figure is made without
        # pyplot, which keeps figures in a global list and is not safe between threads.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ToolError(
            "Charts are not available on this server, since matplotlib is not installed. "
            "Use statistics_table for the same figures."
        ) from None

    figure = Figure(figsize=(7, 0.9 + 0.35 * max(len(figures), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(title=title)
    bars = axes.barh(list(figures), list(figures.values()), color=ACCENT)
    axes.bar_label(bars, padding=3)
    axes.invert_yaxis()
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.xaxis.set_visible(False)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100)
    return picture.getvalue()
