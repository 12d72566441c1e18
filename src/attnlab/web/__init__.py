"""The page: `attnlab serve`."""
