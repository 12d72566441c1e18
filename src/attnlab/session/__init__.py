"""The composition root: the only place that wires the stages together from one run's config."""
