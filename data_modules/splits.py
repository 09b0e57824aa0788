"""Seeded draws that split examples by class."""

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def stratified_split(labels: Any, fraction: float, seed: int) -> tuple[Indices, Indices]:
    """Hold a share of the examples out, the same share of every class.

    ``round(fraction * N)`` examples are held out. Those that rounding down per class leaves over are taken from the
    classes with the largest remainders. At least one example of every class is kept.

    Args:
        labels: Class indices, (N,).
        fraction: Share to hold out, in (0, 1).
        seed: Seed of the draw.

    Returns:
        Sorted indices of the examples kept and of those held out: disjoint, and together all examples.
    """
    labels = np.asarray(labels)
    classes, counts = np.unique(labels, return_counts=True)
    exact = counts * fraction
    held = np.floor(exact).astype(np.int64)
    left_over = round(float(fraction * len(labels))) - int(held.sum())
    for i in np.argsort(held - exact, kind="stable")[: max(0, left_over)]:
        held[i] += 1
    held = np.minimum(held, counts - 1)
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(np.flatnonzero(labels == c))[:n] for c, n in zip(classes, held, strict=True)]
    out = np.sort(np.concatenate(chosen)) if chosen else np.empty(0, np.int64)
    return np.setdiff1d(np.arange(len(labels)), out), out


def grouped_split(labels: Any, groups: Sequence[Hashable], fraction: float, seed: int) -> tuple[Indices, Indices]:
    """Like :func:`stratified_split`, but without splitting groups (tracks, persons, ...) within a class.

    Examples of one class with one key of ``groups`` stay together; ``fraction`` is the share of the groups.
    """
    labels = np.asarray(labels)
    number: dict[tuple[int, Hashable], int] = {}
    group = np.array([number.setdefault((int(c), g), len(number)) for c, g in zip(labels, groups, strict=True)])
    _, held = stratified_split([c for c, _ in number], fraction, seed)
    out = np.isin(group, held)
    return np.flatnonzero(~out), np.flatnonzero(out)


def split_by_group(labels: Any, groups: Sequence[str], fraction: float, seed: int) -> tuple[Indices, Indices]:
    """Hold whole groups (patients, places, ...) out, whose examples may be of several classes.

    One fold of scikit-learn's ``StratifiedGroupKFold`` is held out, of 1/``fraction`` or as many as groups and classes
    allow: the first that leaves at least one example of every class; none if there is no such fold.

    Args:
        labels: Class indices, (N,).
        groups: The group of each example.
        fraction: Share of the examples to hold out, in [0, 1).
        seed: Seed of the folds.

    Returns:
        Sorted indices of the examples kept and of those held out.
    """
    from sklearn.model_selection import StratifiedGroupKFold  # the import takes a second

    label = np.asarray(labels)
    classes, sizes = np.unique(label, return_counts=True)
    number = min(max(2, round(1 / fraction)), len(set(groups)), sizes.max()) if fraction else 0
    if number > 1:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of classes of fewer examples than folds
            folds = [*StratifiedGroupKFold(number, shuffle=True, random_state=seed).split(label, label, groups)]
        for kept, held in folds:
            if len(np.unique(label[kept])) == len(classes):
                return kept, held
    return np.arange(len(label)), np.empty(0, np.int64)


def stratified_order(labels: Any, seed: int) -> Indices:
    """A permutation of all examples such that its first n examples are class-stratified, for every n.

    The first K examples of K classes are one of each class; the following ones have the shares of the classes. So a
    smaller training subset is always part of a larger one. ``labels`` are class indices, (N,).
    """
    labels = np.asarray(labels)
    rng = np.random.default_rng(seed)
    key = np.empty(len(labels))
    for c in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == c))
        key[members] = (np.arange(len(members)) + rng.random()) / len(members)
        key[members[0]] = -1.0
    return np.lexsort((rng.random(len(labels)), key))


def rarest_labels(labels: Any) -> Indices:
    """The rarest label of each example, or K if it has none: to hold out a share of each keeps all labels in a split.

    Args:
        labels: 1 for each label that an example has, (N, K).

    Returns:
        Indices of labels, (N,).
    """
    has = np.asarray(labels) == 1
    counts = np.where(has, has.sum(axis=0), np.iinfo(np.int64).max)
    strata: Indices = np.where(has.any(axis=1), counts.argmin(axis=1), has.shape[1])
    return strata
