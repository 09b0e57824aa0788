"""Shortest paths between all nodes of a computational graph."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lgx.errors import UserError

MAX_PATH = 254
"""Longest path that GHN-3's encoder has an embedding for."""


def shortest_paths(predecessors: Sequence[Sequence[int]], cutoff: int) -> npt.NDArray[np.int16]:
    """Lengths of the shortest paths between all pairs of nodes of a directed acyclic graph.

    One pass in topological order suffices: the distance to a node is one more than the smallest distance to any of its
    predecessors.

    Args:
        predecessors: For each of the N nodes the nodes with an edge to it; all have a lower index.
        cutoff: Longer paths count as missing.

    Returns:
        int16, (N, N), from the node of the row to the node of the column; 0 if there is no path.

    Raises:
        UserError: If the cutoff is not between 1 and :data:`MAX_PATH`.
    """
    if not 1 <= cutoff <= MAX_PATH:
        raise UserError(f"cutoff: must be between 1 and {MAX_PATH}, got {cutoff}")
    count, far = len(predecessors), np.iinfo(np.int16).max - 1
    lengths = np.full((count, count), far, dtype=np.int16)
    for node, before in enumerate(predecessors):
        for other in before:
            np.minimum(lengths[:, node], lengths[:, other] + 1, out=lengths[:, node])
        lengths[node, node] = 0
    lengths[lengths > cutoff] = 0
    return lengths
