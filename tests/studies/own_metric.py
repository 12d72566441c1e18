"""A metric of one's own: a function and a line. Workers import it with the study's extras."""

import numpy as np

from attnlab.metrics import METRICS
from attnlab.metrics.metric import mean_of
from attnlab.studies.extras import Extras


def easy_texts(examples):
    """Easy texts: the share of texts whose words cost less than 1.75 nats each."""
    return (examples["nats"] < 1.75 * np.maximum(1, examples["targets"])).astype(float)


class Registered(Extras):
    """Nothing but the import of this module."""


METRICS.register("easy_texts", mean_of(easy_texts, better="higher", needs=("nats", "targets")))
