"""How good one class for each example is."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from attnlab.metrics.metric import Examples, Floats, Mean, Metric, ShareOfExamples, ratio

BINS = 15


@dataclass(frozen=True)
class ClassScores:
    """One class: how many examples have it and are called it, and how often that is right; None where there
    is nothing to divide by."""

    name: str
    examples: int
    predicted: int
    precision: float | None
    recall: float | None
    f1: float | None

    @classmethod
    def of(cls, name: str, *, right: float, true: float, predicted: float) -> ClassScores:
        """By counts of examples."""

        def share(part: float, whole: float) -> float | None:
            return float(part / whole) if whole else None

        shares = share(right, predicted), share(right, true), share(2 * right, true + predicted)
        return cls(name, int(true), int(predicted), *shares)


class Accuracy(ShareOfExamples):
    """Accuracy: the share of examples whose most probable class is the right one.

    Formula: Σ [argmax p = label] / n, with Wilson's interval, or the jackknife's where rows share a group.
    Compare it with the share of the most frequent class, which needs no model.
    """

    needs = ("label", "probabilities")

    def each(self, examples: Examples) -> Floats:
        return (predicted(examples) == examples["label"]).astype(np.float64)


class ClassCounts(Metric):
    """What is made of counts by class: its sums are right answers, labels and predictions, C of each."""

    needs = ("label", "probabilities")

    def parts(self, examples: Examples) -> Floats:
        each, classes = np.arange(len(examples)), examples["probabilities"].shape[1]
        label, predictions = examples["label"], predicted(examples)
        counts = np.zeros((len(examples), 3, classes))
        counts[each, 0, label] = label == predictions
        counts[each, 1, label] = 1
        counts[each, 2, predictions] = 1
        return counts.reshape(len(examples), 3 * classes)

    def of(self, sums: Floats) -> Floats:
        right, labels, predictions = np.moveaxis(sums.reshape(*sums.shape[:-1], 3, -1), -2, 0)
        return self.of_counts(right, labels, predictions)

    @abstractmethod
    def of_counts(self, right: Floats, labels: Floats, predicted: Floats) -> Floats:
        """(…, C) each -> (…)."""


class MacroF1(ClassCounts):
    """Macro F1: the mean over classes of the F1 of each, rare classes counting as much as frequent ones.

    Formula: F1_c = 2·tp / (2·tp + fp + fn); a class that is neither there nor predicted is left out.
    """

    better = "higher"
    limits = (0.0, 1.0)

    def of_counts(self, right: Floats, labels: Floats, predicted: Floats) -> Floats:
        mean: Floats = np.nanmean(ratio(2 * right, labels + predicted), -1)
        return mean


class Matthews(ClassCounts):
    """Matthews: the correlation of labels and predictions; 0 for a model that ignores its input.

    Formula: (n·Σ right − Σ_c labels_c·predictions_c) / √(n² − Σ labels_c²) / √(n² − Σ predictions_c²),
    and 0 where all labels or all predictions are one class.
    """

    better = "higher"
    limits = (-1.0, 1.0)

    def of_counts(self, right: Floats, labels: Floats, predicted: Floats) -> Floats:
        n = labels.sum(-1)
        above = n * right.sum(-1) - (labels * predicted).sum(-1)
        below = np.sqrt(np.maximum(0.0, (n**2 - (labels**2).sum(-1)) * (n**2 - (predicted**2).sum(-1))))
        return np.nan_to_num(ratio(above, below))


class CalibrationError(Metric):
    """Calibration error: how far confidence and accuracy are apart, in the mean over 15 bins of confidence.

    Formula: Σ_bins |Σ confidence − Σ right| / n, the bins equally wide from 0 to 1.

    Paper: Guo et al. 2017, "On Calibration of Modern Neural Networks".
    """

    better = "lower"
    limits = (0.0, 1.0)
    needs = ("label", "probabilities")

    def parts(self, examples: Examples) -> Floats:
        confidence, right, place = confidence_bins(examples)
        sums = np.zeros((len(examples), BINS + 1))
        sums[np.arange(len(examples)), place] = confidence - right
        sums[:, BINS] = 1
        return sums

    def of(self, sums: Floats) -> Floats:
        return ratio(np.abs(sums[..., :BINS]).sum(-1), sums[..., BINS])


def confidence_bins(examples: Examples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each example (n) the confidence of its prediction, whether it is right, and the bin it is in."""
    confidence = examples["probabilities"].max(1)
    right = predicted(examples) == examples["label"]
    return confidence, right, np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)


def predicted(examples: Examples) -> np.ndarray:
    """(n) the most probable class of each example."""
    return examples["probabilities"].argmax(1)


class ExactSets(Mean):
    """Exact sets: the share of examples all of whose labels are right, none missing and none too many."""

    better = "higher"
    limits = (0.0, 1.0)
    share = True
    needs = ("labels", "chances")

    def each(self, examples: Examples) -> Floats:
        return (chosen(examples) == examples["labels"]).all(1).astype(np.float64)


class MicroF1(Metric):
    """Micro F1: the F1 of all single decisions, label by label.

    Formula: 2·tp / (2·tp + fp + fn) over all labels of all examples; a label is chosen above a chance of ½.
    """

    better = "higher"
    limits = (0.0, 1.0)
    needs = ("labels", "chances")

    def parts(self, examples: Examples) -> Floats:
        predicted, right = chosen(examples), examples["labels"].astype(bool)
        return np.stack([2 * (predicted & right).sum(1), predicted.sum(1) + right.sum(1)], 1).astype(
            np.float64
        )

    def of(self, sums: Floats) -> Floats:
        return ratio(sums[..., 0], sums[..., 1])


def chosen(examples: Examples) -> np.ndarray:
    """(n, C) the labels that are more likely than not."""
    return examples["chances"] > 0.5
