"""Figures of graphs: drawings of small ones, the degrees of a large one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.lazy import mpl_cm, mpl_figure, nx, sp  # not pyplot: no display, no global state
from recipes.names import on_plot

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

MOST_NODES = 300                                              # of a drawing in which single edges are visible
MOST_NAMES = 40                                               # nodes of a drawing that has their names
_GREY, _GROUPS = "#999999", 10                                # groups with a colour of their own


def graph_figure(adjacency: sp.csr_matrix, groups: Mapping[str, np.ndarray], names: Sequence[str],
                 marked: Mapping[str, np.ndarray] | None = None) -> mpl_figure.Figure:
    """The degrees of a graph, or a drawing of it if it has at most `MOST_NODES` nodes.

    Args:
      adjacency: symmetric.
      groups: name -> its nodes; each of the first ones has a colour, other nodes are grey.
      names: of the nodes; they are written into a drawing with few nodes.
      marked: name -> edges [m, 2] that are dashed.
    """
    degrees = np.diff(sp.csr_matrix(adjacency).indptr)
    if len(degrees) > MOST_NODES:
        return _degree_figure(degrees)
    named = len(degrees) <= MOST_NAMES
    figure = mpl_figure.Figure(figsize=(7.6, 6.6) if named else (5.1, 5.1), dpi=150, layout="constrained")
    axis = figure.subplots()
    places, legend = _draw(axis, adjacency, groups, marked or {})
    if named:
        for name, place in zip(names, places, strict=True):
            axis.annotate(on_plot(name, 12), place, xytext=(0, 7), textcoords="offset points", ha="center",
                          fontsize=7)
    figure.legend(legend.values(), [on_plot(name) for name in legend], loc="outside lower left", frameon=False,
                  fontsize=9, ncols=3)
    return figure


def small_graph_figure(adjacency: sp.csr_matrix, caption: str) -> mpl_figure.Figure:
    """A drawing of a graph among others, with its caption above."""
    figure = mpl_figure.Figure(figsize=(1.85, 2.0), dpi=150, layout="constrained")
    axis = figure.subplots()
    _draw(axis, adjacency, {}, {})
    axis.set_title(on_plot(caption, 24), fontsize=8)
    return figure


def _draw(axis: Axes, adjacency: sp.csr_matrix, groups: Mapping[str, np.ndarray],
          marked: Mapping[str, np.ndarray]) -> tuple[np.ndarray, dict[str, Artist]]:
    """Draws the edges and nodes of a graph; arguments as in `graph_figure`.

    Returns: ([n, 2], where each node is; name -> what the legend shows for it). Matplotlib's own legend would leave out
    names that begin with _.
    """
    legend: dict[str, Artist] = {}
    places = _places(adjacency)
    upper = sp.triu(adjacency).tocoo()
    _draw_edges(axis, places, np.stack([upper.row, upper.col], 1), color=_GREY, linewidth=0.6)
    for (name, edges), colour in zip(marked.items(), ("#cc6677", "#4477aa"), strict=False):
        legend[name] = _draw_edges(axis, places, edges, color=colour, linewidth=1.2, linestyle="--")
    others = np.ones(len(places), bool)
    for (name, nodes), colour in zip(list(groups.items())[:_GROUPS], mpl_cm.tab10.colors, strict=False):
        others[nodes] = False
        legend[name] = axis.scatter(*places[nodes].T, s=26, color=colour, zorder=3)
    if others.any():
        rest = axis.scatter(*places[others].T, s=26, color=_GREY, zorder=3)
        legend |= {"other nodes": rest} if groups else {}
    axis.set_axis_off()
    axis.margins(0.08)
    return places, legend


def _places(adjacency: sp.csr_matrix) -> np.ndarray:
    """[n, 2]: the components in lines, the largest first, and below them the nodes without edges, with room for names.

    The places are always the same for the same graph.
    """
    graph = nx.from_scipy_sparse_array(sp.csr_array(adjacency))
    components = sorted(map(sorted, nx.connected_components(graph)), key=len, reverse=True)
    radii = [np.sqrt(len(nodes)) if len(nodes) > 1 else 0.9 for nodes in components]
    width, places = 2.6 * np.sqrt(sum(radius**2 for radius in radii)), np.zeros((len(graph), 2))
    x = y = height = 0.0
    first_single = next((nodes for nodes in components if len(nodes) == 1), None)
    for nodes, radius in zip(components, radii, strict=True):
        if x and (x + 2 * radius > width or nodes is first_single):
            x, y, height = 0.0, y - height, 0.0
        by_node = nx.spring_layout(graph.subgraph(nodes), seed=0, iterations=120, k=1.6 / np.sqrt(len(nodes)),
                                   scale=0.85 * radius, center=(x + radius, y - radius))
        places[nodes] = [by_node[node] for node in nodes]
        x, height = x + 2 * radius, max(height, 2 * radius)
    return places


def _draw_edges(axis: Axes, places: np.ndarray, edges: np.ndarray, **style: Any) -> Line2D:
    """One line with a gap after each edge: faster than a line for each."""
    ends = np.full((len(edges), 3, 2), np.nan)
    ends[:, :2] = places[edges]
    return axis.plot(*ends.reshape(-1, 2).T, zorder=1, **style)[0]


def _degree_figure(degrees: np.ndarray) -> mpl_figure.Figure:
    figure = mpl_figure.Figure(figsize=(5.6, 3.4), dpi=150, layout="constrained")
    axis = figure.subplots()
    values, counts = np.unique(degrees, return_counts=True)
    axis.plot(values + 1, counts, "o", markersize=3, color="#4477aa")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("edges of a node + 1")
    axis.set_title("number of nodes", loc="left", fontsize=11)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
