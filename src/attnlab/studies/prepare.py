"""Text made ready once, before the runs: so many seeds do not tokenise it as often."""

from __future__ import annotations

import numpy as np

from attnlab.config.schema import Config
from attnlab.runs.summary import Histogram
from attnlab.session.session import Session, default_cache
from attnlab.studies.resolved import Resolved

BINS = 25


def prepare_data(resolved: Resolved) -> Histogram:
    """Fill the cache that workers share; gives the lengths of the baseline's training texts.

    Where an arm's own text cannot be read, its runs say so and the others go on; the baseline's is
    needed by all.
    """
    baseline = resolved.configs[resolved.study.baseline]
    lengths = tokenised(baseline)
    others = {repr((c.data, c.task)): c for c in resolved.configs.values()}
    for config in others.values():
        if (config.data, config.task) == (baseline.data, baseline.task):
            continue
        try:
            tokenised(config)
        except (ValueError, OSError):
            continue
    return lengths


def tokenised(config: Config) -> Histogram:
    """All that is read of the text in the cache; gives a histogram of the training rows' lengths."""
    dataset = Session(config, cache=default_cache()).dataset
    for split in dataset.splits.names:
        dataset.rows(split)
    _ = dataset.overlap
    lengths = np.asarray(dataset.rows("train").lengths)
    counts, edges = np.histogram(lengths, bins=min(BINS, max(1, int(np.ptp(lengths)))))
    return {"edges": edges.tolist(), "counts": counts.tolist()}
