"""A run on disk: written by training, read by studies, the command line and whoever else asks. No torch."""
