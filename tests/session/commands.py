"""The command line, as a test calls it."""

import json

from typer.testing import CliRunner

from attnlab.cli import app


def command(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def answer(*arguments):
    result = command(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
