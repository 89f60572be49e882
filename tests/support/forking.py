"""
Python processes, forked for the requests on the standard input from one that has libraries loaded.

Loading them takes most of the time of such a process. Neither this package nor a module that reads
settings is among them, so that a site starts as it does from the command line.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import sys
import warnings
from importlib import import_module
from typing import Any

LIBRARIES = (
    "django.contrib.admin.helpers",
    "django.contrib.auth.hashers",
    "django.core.management",
    "django.core.handlers.wsgi",
    "django.db.backends.sqlite3.base",
    "django.db.migrations.executor",
    "django.test",
    "docstring_parser",
    "jsonschema",
    "jwcrypto.jwt",
    "jwt",
    "oauthlib.oauth2",
    "pydantic.dataclasses",
    "pydantic.type_adapter",
    "referencing.jsonschema",
    "requests",
    "rest_framework.serializers",
)


def wait(pid: int, options: int) -> int | None:
    """Return the exit status of a process; without waiting, None while it runs."""
    ended, status = os.waitpid(pid, options)
    return os.waitstatus_to_exitcode(status) if ended else None


def serve() -> dict[str, Any]:
    """Answer requests until the input ends; return in each process that is forked."""
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        if "pid" in request:
            print(json.dumps(wait(**request)), flush=True)
        elif pid := os.fork():
            print(pid, flush=True)
        else:
            return request
    sys.exit()


def become(out: str, err: str, cwd: str, env: dict[str, str], timeout: int) -> None:
    """Adopt the directory, the variables and the output of the requested process."""
    for number, path in enumerate((os.devnull, out, err)):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND if number else os.O_RDONLY
        os.dup2(os.open(path, flags), number)
    signal.alarm(timeout)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)


def run(arguments: list[str]) -> None:
    """Run the arguments of a command line: ``-W``, then ``-c``, ``-m`` or a file."""
    while arguments[0] == "-W":
        sys.warnoptions.append(arguments[1])
        warnings.simplefilter(arguments[1])  # type: ignore[arg-type]
        arguments = arguments[2:]
    kind, *rest = arguments if arguments[0] in ("-c", "-m") else ["", *arguments]
    name, *_ = rest
    sys.argv = rest if kind != "-c" else [kind, *rest[1:]]
    first = {"-c": "", "-m": os.getcwd(), "": os.path.dirname(name)}[kind]
    sys.path[:] = [first, *os.environ.get("PYTHONPATH", "").split(os.pathsep), *INSTALLED]
    if kind == "-m":
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    elif kind == "-c":
        exec(compile(name, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_path(name, run_name="__main__")


if __name__ == "__main__":
    own = [sys.path[0], *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    INSTALLED = [each for each in sys.path if each not in own]
    for library in LIBRARIES:
        import_module(library)
    gc.freeze()
    asked = serve()
    given = asked.pop("arguments")
    become(**asked)
    run(given)
