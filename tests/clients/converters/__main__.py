"""
Run one converter of this environment: ``python -m tests.clients.converters NAME SCHEMAS``.

The answer is JSON on standard output: the result of each schema, ``{"name": ..., "made": ...}``,
with ``refused`` and ``warned`` in words. It is judged in the project's own environment.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path

from tests.clients.converters import python


class Warned(logging.Handler):
    """Handler that keeps the warnings of a library while it converts."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def main(name: str, path: Path) -> None:
    convert = getattr(python, name)
    handler = Warned()
    logging.getLogger().addHandler(handler)
    answers = []
    for tool in json.loads(path.read_text()):
        handler.said.clear()
        answer: dict[str, object] = {"name": tool["name"]}
        with warnings.catch_warnings(record=True) as caught:
            try:
                answer["made"] = convert(tool)
            except ImportError:
                raise
            except Exception as error:
                answer["refused"] = f"{type(error).__name__}: {error}"[:300]
        answer["warned"] = [*handler.said, *(str(each.message) for each in caught)]
        answers.append(answer)
    json.dump(answers, sys.stdout)


main(sys.argv[1], Path(sys.argv[2]))
