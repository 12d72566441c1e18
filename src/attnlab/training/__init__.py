"""From a model and an objective to trained weights: a loop that survives anything."""
