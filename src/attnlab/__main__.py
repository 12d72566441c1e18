"""`python -m attnlab`, where the command is not on the path."""

from attnlab.cli import main

main()
