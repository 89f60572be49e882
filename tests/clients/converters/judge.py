"""
All converters, and the verdict on each.

A converter passes if it refuses no schema, warns of none, and shows a model each value as it was
sent. ``limits`` are features that a converter can never hold, each with its reason; a schema that
differs for one of these alone is counted, and is not a failure.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clients.converters.compare import causes, compare
from tests.clients.environments import NODE, ROOT, SERVERS, programs, search_path
from tests.clients.serving import Failure

STRICT = {"open objects": "strict mode wants additionalProperties: false"}
SUBSET = {
    "open objects": "Gemini's Schema has no additionalProperties",
    "recursion": "Gemini's Schema has no references",
    "choices that are no strings": "Gemini's enum holds strings",
    "const": "left out",
    "anything": "a schema without a type has none to become",
}


@dataclass(frozen=True)
class Converter:
    """
    A converter, with its environment: that of a Python program, or "node".

    ``google`` says whether it is given the schemas of a site that has Google's setting; ``ignored``
    are warnings that do not concern the schemas.
    """

    name: str
    environment: str
    limits: dict[str, str] = field(default_factory=dict)
    google: bool = False
    ignored: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.name.replace("_", "-")


CONVERTERS = [
    Converter("openai", "agents", STRICT),
    Converter("openai_agents", "agents", STRICT),
    Converter(
        "anthropic",
        "agents",
        {
            **STRICT,
            "anything": "a type is wanted everywhere",
            "choices that are objects or arrays": "its enum holds none",
        },
    ),
    Converter("pydantic_ai", "agents", {**STRICT, "anything": "a type is wanted everywhere"}),
    Converter("litellm", "agents"),
    Converter("litellm_anthropic", "agents"),
    Converter("litellm_gemini", "agents", SUBSET, google=True),
    Converter(
        "llama_index",
        "agents",
        {
            "recursion": "it recurses without end",
            "objects in objects": "any object is taken where members are not by reference",
            "const": "left out",
            "oneOf": "left out",
            "choices that are objects or arrays": "it looks them up in a set",
            "anything": "taken as a string",
            "nothing but null": "taken as a string",
            "open objects": "taken as any object",
            "members without a default": "null is taken for what may be left out",
        },
    ),
    Converter(
        "google_genai", "agents", SUBSET, google=True, ignored=("Pydantic serializer warnings",)
    ),
    Converter("google_adk", "google", google=True),
    Converter(
        "langchain_google_genai",
        "google",
        {
            **SUBSET,
            "nothing but null": "taken as a string",
            "alternatives": "of several types with null, the last is kept",
            "null further down": "null is kept for parameters alone",
        },
        google=True,
        ignored=("Key '$defs'", "Key 'const'", "Key 'uniqueItems'", "Key 'additionalProperties'"),
    ),
    Converter("ai_sdk_openai", "node"),
    Converter("ai_sdk_anthropic", "node"),
    Converter("ai_sdk_google", "node", google=True),
]


@dataclass
class Verdict:
    """
    Outcome of all schemas: how many passed, how many were limited by a feature, and the failures.
    """

    whole: int = 0
    limited: dict[str, int] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        total = self.whole + sum(self.limited.values()) + len(self.failures)
        said = [f"{total} schemas, {self.whole} whole"]
        if self.limited:
            count = sum(self.limited.values())
            said.append(f"{count} as far as it can ({', '.join(sorted(self.limited))})")
        if self.failures:
            said.append(f"{len(self.failures)} refused, dropped or misread")
        return ", ".join(said)


def judge(converter: Converter, schemas: Path) -> Verdict:
    """Run a converter over a file of tool definitions."""
    tools = {tool["name"]: tool["inputSchema"] for tool in json.loads(schemas.read_text())}
    answers = {answer["name"]: answer for answer in _run(converter, schemas)}
    if answers.keys() != tools.keys():
        raise Failure(f"{converter.title} has answered for {len(answers)} of {len(tools)} schemas")
    verdict = Verdict()
    for name, schema in tools.items():
        limited, failures = _sort(converter, schema, answers[name])
        verdict.needed |= limited
        if failures:
            verdict.failures[name] = failures
        elif limited:
            reason = sorted(limited)[0]
            verdict.limited[reason] = verdict.limited.get(reason, 0) + 1
        else:
            verdict.whole += 1
    return verdict


def _sort(
    converter: Converter, schema: dict[str, Any], answer: dict[str, Any]
) -> tuple[set[str], list[str]]:
    """Return the limits that a schema has met, and the other findings."""
    failures = [w for w in answer["warned"] if not w.startswith(converter.ignored or "\0")]
    limited: set[str] = set()
    if "refused" in answer:
        excused = causes(schema) & converter.limits.keys()
        limited |= excused
        failures += [] if excused else [f"refused: {answer['refused']}"]
    else:
        for finding in compare(schema, answer["made"]):
            excused = set(finding.causes & converter.limits.keys())
            limited |= excused
            failures += [] if excused else [f"{finding.path} {finding.message}"]
    return limited, failures


def _run(converter: Converter, schemas: Path) -> Iterator[dict[str, Any]]:
    if converter.environment == "node":
        node = programs(SERVERS) / "node"
        command = [node, NODE / "converters.mjs", converter.name, schemas]
    else:
        python = programs(converter.environment) / "python"
        command = [python, "-m", "tests.clients.converters", converter.name, schemas]
    # litellm would fetch a list of prices.
    env = {**os.environ, "PATH": search_path(), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise Failure(f"{converter.title} has ended with {done.returncode}:\n{done.stderr[-3000:]}")
    yield from json.loads(done.stdout.splitlines()[-1])
