"""A laboratory for transformers."""
