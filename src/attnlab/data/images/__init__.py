"""Pictures: where their bytes are, how they are decoded, and what becomes of them."""
