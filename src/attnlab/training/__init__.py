"""From a model and a task to trained weights: a loop that survives anything."""
