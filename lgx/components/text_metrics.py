"""The metrics of GLUE's tasks that are no accuracy, as scikit-learn defines them."""

import torch
from torch import Tensor
from torchmetrics.classification import MulticlassConfusionMatrix, MulticlassF1Score


class Matthews(MulticlassConfusionMatrix):
    """Matthews correlation coefficient, in [-1, 1]; of K classes Gorodkin's (2004).

    0 where all predictions or all targets are of one class, like scikit-learn's. Torchmetrics' own gives such a
    predictor a value that depends on the counts (0.04 on 20 examples), and 1 where the targets are of one class too.
    """

    def compute(self) -> Tensor:
        """The coefficient over all batches and ranks."""
        counts = super().compute().double()
        total, targets, predicted = counts.sum(), counts.sum(dim=1), counts.sum(dim=0)
        covariance = counts.trace() * total - targets @ predicted
        spread = (total**2 - predicted @ predicted) * (total**2 - targets @ targets)
        return torch.where(spread > 0, covariance / spread.clamp(min=1).sqrt(), 0.0).float()


class PositiveF1(MulticlassF1Score):
    """F1 of class 1, the positive one of two; 0 where it is neither predicted nor true.

    Args:
        num_classes: K.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes, average="none")

    def compute(self) -> Tensor:
        """The score over all batches and ranks."""
        scores: Tensor = super().compute()
        return scores[1]
