"""What a model does inside: where it looks."""
