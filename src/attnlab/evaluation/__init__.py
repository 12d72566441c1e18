"""What a model is worth, with n, interval and definition beside every number."""
