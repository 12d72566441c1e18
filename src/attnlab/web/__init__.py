"""The laboratory as a local web page, live: it reads `runs/` without torch, which only its workers import."""
