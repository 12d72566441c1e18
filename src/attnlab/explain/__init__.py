"""What a model does inside: where it looks, what its heads are worth, and what attention can reach."""
