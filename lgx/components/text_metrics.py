"""Metrics of GLUE tasks other than accuracy, as scikit-learn defines them."""

import torch
from torch import Tensor
from torchmetrics.classification import MulticlassConfusionMatrix, MulticlassF1Score


class Matthews(MulticlassConfusionMatrix):
    """Matthews correlation coefficient, in [-1, 1]; for K > 2 classes the generalization by Gorodkin (2004).

    It is 0 if all predictions or all targets belong to one class, as in scikit-learn. Torchmetrics' own metric depends
    on the counts in that case (0.04 on 20 examples) and is 1 if predictions and targets belong to the same class.
    """

    def compute(self) -> Tensor:
        """Compute the coefficient over all batches and ranks.

        Returns:
            Scalar, float32.
        """
        counts = super().compute().double()
        total, targets, predicted = counts.sum(), counts.sum(dim=1), counts.sum(dim=0)
        covariance = counts.trace() * total - targets @ predicted
        spread = (total**2 - predicted @ predicted) * (total**2 - targets @ targets)
        return torch.where(spread > 0, covariance / spread.clamp(min=1).sqrt(), 0.0).float()


class PositiveF1(MulticlassF1Score):
    """F1 of the positive class, class 1 of two; 0 if class 1 is in neither the predictions nor the targets.

    Args:
        num_classes: K.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes, average="none")

    def compute(self) -> Tensor:
        """Compute the score over all batches and ranks.

        Returns:
            Scalar in [0, 1].
        """
        scores: Tensor = super().compute()
        return scores[1]
