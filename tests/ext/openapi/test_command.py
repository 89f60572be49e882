"""manage.py mcp_openapi, which pins the document of a service."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.support.services import Received, Service, send

DOCUMENT = """
openapi: 3.0.3
info: {title: Weather, version: 2026-11-23}
servers: [{url: "https://evil.example"}]
security: [{key: []}]
paths:
  /places/{place}:
    parameters:
      - {$ref: "#/x-parts/parameters/place"}
    get:
      operationId: weather/get
      summary: Say what the weather is.
      tags: [weather]
      parameters:
        - {name: day, in: query, schema: {type: string, format: date, default: 2026-11-23}}
        - {name: like, in: query, schema: {$ref: "#/paths/~1other/get/x-schema"}}
      responses:
        "200":
          content:
            application/json:
              schema: {$ref: "#/components/schemas/Weather"}
    delete: {operationId: weather/delete}
  /other:
    get:
      operationId: other
      x-schema: {type: integer}
  /reports:
    $ref: "#/x-parts/reports"
x-parts:
  parameters:
    place: {name: place, in: path, required: true, schema: {$ref: "#/x-parts/schemas/Place"}}
  schemas:
    Place: {type: string, maxLength: 40}
  reports:
    post:
      operationId: reports/create
      tags: [weather]
      requestBody:
        content: {application/xml: {}}
components:
  securitySchemes:
    key: {type: http, scheme: bearer}
    old: {type: apiKey, in: query, name: k}
  schemas:
    Weather:
      type: object
      properties: {wind: {$ref: "#/components/schemas/Wind"}, more: {$ref: "#/nowhere"}}
    Wind: {type: number}
    Unused: {type: string}
"""
TOOL = "weather_get"

# Runs the command with these arguments and returns its output.
Run = Callable[..., str]


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """The document of a service."""
    file = tmp_path / "api.yaml"
    file.write_text(DOCUMENT)
    return file


@pytest.fixture
def pinned(tmp_path: Path) -> Path:
    return tmp_path / "site" / "weather.json"


@pytest.fixture
def run(settings: Any, pinned: Path) -> Run:
    def call(*arguments: object, alias: str = "weather", **options: Any) -> str:
        given = {
            "document": pinned,
            "server": "https://weather.example",
            "operations": ["tag:weather"],
            "anonymous": True,
            **options,
        }
        backend = "mcp_bridge.ext.openapi.OpenAPISource"
        settings.MCP_BRIDGE = {
            "SOURCES": {"weather": {"BACKEND": backend, "OPTIONS": given}, "rpc": {}}
        }
        out = StringIO()
        call_command("mcp_openapi", alias, *map(str, arguments), stdout=out, stderr=out)
        return out.getvalue()

    return call


def test_command_keeps_chosen_operations_and_their_references(
    run: Run, service: Path, pinned: Path
) -> None:
    told = run("--from", service)
    data = json.loads(pinned.read_text())
    assert sorted(data) == ["components", "info", "openapi", "paths", "security"]
    assert data["info"]["version"] == "2026-11-23"
    assert {path: sorted(item) for path, item in data["paths"].items()} == {
        "/places/{place}": ["get", "parameters"],
        "/reports": ["post"],
    }
    components = data["components"]
    assert sorted(components["schemas"]) == ["Weather", "Wind"]
    assert sorted(components) == ["schemas", "securitySchemes", "x-moved"]
    assert {"type": "string", "maxLength": 40} in components["x-moved"].values()
    assert "evil.example" not in pinned.read_text()
    assert f"{TOOL}  " in told
    assert "GET /places/{place}" in told
    assert "POST /reports (weather.json) is marked, but not served: its request" in told
    assert "'#/nowhere' does not exist" in told
    assert "The service accepts the credential key (Authorization: Bearer …)." in told
    assert "The service accepts the credential old (no header, but query)." in told
    assert told.endswith(f"{pinned}: written.\n")


def test_pinned_document_is_served_by_the_source(run: Run, service: Path) -> None:
    run("--from", service)
    assert f"{TOOL}  " in run()


def test_command_shows_changes(run: Run, service: Path, pinned: Path) -> None:
    run("--from", service)
    before = pinned.read_text()
    assert run("--from", service).endswith(f"{pinned}: unchanged.\n")
    text = service.read_text()
    service.write_text(text.replace("what the weather is", "how it is").replace("[weather]", "[x]"))
    with pytest.raises(CommandError):
        run("--from", service, "--check", operations=["weather/*"])
    assert pinned.read_text() == before
    told = run("--from", service, operations=["weather/*"])
    assert "~ weather_get\n" in told
    assert "-Say what the weather is." in told
    assert "+Say how it is." in told
    told = run("--from", service, operations=["other"])
    assert "+ other\n" in told
    told = run("--from", service, operations=["weather/*"])
    assert "- other\n" in told
    assert "+ weather_delete" in told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/places/{place}:", "/accounts/{place}:"),
        ("    get:\n      operationId: weather", "    put:\n      operationId: weather"),
    ],
)
def test_command_shows_a_changed_method_or_path(
    old: str, new: str, run: Run, service: Path
) -> None:
    run("--from", service)
    service.write_text(service.read_text().replace(old, new))
    told = run("--from", service)
    assert "~ weather_get\n" in told
    assert "    -GET /places/{place}\n" in told
    assert ("    +GET /accounts/{place}\n" in told) or ("    +PUT /places/{place}\n" in told)


def test_check_fails_if_the_pinned_file_is_outdated(run: Run, service: Path, pinned: Path) -> None:
    with pytest.raises(CommandError, match=r"Missing file .*weather\.json"):
        run("--check")
    run("--from", service, operations=["weather/get"])
    run("--check", operations=["weather/get"])
    run("--from", service, "--check", operations=["weather/get"])
    with pytest.raises(CommandError, match="not up to date"):
        run("--check", operations=["weather/get", "missing"])


def test_command_reads_a_document_over_http(
    run: Run, service: Path, pinned: Path, at_the_other_end: Service
) -> None:
    def answer(received: Received, handler: Any) -> None:
        send(handler, service.read_bytes(), 200, "text/plain")

    at_the_other_end.answers["docs"] = answer
    url = f"{at_the_other_end.url}/docs/api.yaml"
    run("--from", url)
    by_http = pinned.read_text()
    run("--from", service)
    assert pinned.read_text() == by_http
    at_the_other_end.answers["docs"] = lambda received, handler: send(
        handler, b"", 302, Location="/docs/v2"
    )
    with pytest.raises(CommandError, match="with 302 and redirects to /docs/v2"):
        run("--from", url)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- a", "'list' object|not OpenAPI|not an object"),
        ("swagger: '2.0'", "not OpenAPI of version 3, but of '2.0'"),
        ("a: [", "is not YAML"),
        ("{", "Expecting property name"),
        ("[" * 100_000, "nested too deeply"),
        (
            "openapi: 3.0.0\ninfo:\n  a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
            + "\n".join(
                f"  {name}: &{name} [{', '.join([f'*{before}'] * 10)}]"
                for before, name in zip("abcd", "bcde", strict=True)
            ),
            "more than 10000 values",
        ),
        (DOCUMENT.replace("#/x-parts/par", "common.yaml#/par"), "bundle them first"),
        (DOCUMENT.replace("#/x-parts/rep", "file:///etc/passwd#/rep"), "in another document"),
    ],
)
def test_unpinnable_documents_are_command_errors(
    text: str, why: str, run: Run, service: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_bridge.ext.openapi.pinned._MAX_VALUES", 10_000)
    service.write_text(textwrap.dedent(text))
    with pytest.raises(CommandError, match=why):
        run("--from", service)


# References outside the chosen operations, by their place in the document.
GONE = "{$ref: 'gone.yaml#/x'}"
UNFOLLOWED = {
    "extension": ("      summary: Say", f"      x-more: {GONE}\n      summary: Say"),
    "above": ("      summary: Say", "      x-more: {$ref: ../../up.yaml}\n      summary: Say"),
    "nested": ("      summary: Say", f"      x-a: [{{b: {GONE}}}]\n      summary: Say"),
    "component": ("    Unused: {type: string}", f"    Unused: {{items: {GONE}}}"),
    "operation": ("operationId: weather/delete", f"requestBody: {GONE}, operationId: x"),
    "extension of paths": ("  /other:", f"  x-gone: {GONE}\n  /other:"),
    "path in an extension": ("  /other:", "  x-old: {get: {operationId: weather/get}}\n  /other:"),
    "document": ("components:", f"x-all: {GONE}\nwebhooks: {{w: {GONE}}}\ncomponents:"),
    **{
        name: ("Wind: {type: number}", f"Wind: {{type: number, {name}: {value}}}")
        for name, value in {
            "default": GONE,
            "enum": f"[1, {GONE}]",
            "const": GONE,
            "example": GONE,
            "examples": f"[{GONE}]",
        }.items()
    },
}


@pytest.mark.parametrize(("before", "after"), UNFOLLOWED.values(), ids=UNFOLLOWED)
def test_references_outside_chosen_operations_are_not_followed(
    before: str, after: str, run: Run, service: Path, pinned: Path
) -> None:
    assert DOCUMENT.count(before) == 1
    service.write_text(DOCUMENT.replace(before, after))
    told = run("--from", service, operations=["weather/get"])
    assert told.endswith(f"{pinned}: written.\n")
    data = json.loads(pinned.read_text())
    assert list(data["paths"]) == ["/places/{place}"]
    assert sorted(data["components"]["schemas"]) == ["Weather", "Wind"]
    assert f"{TOOL}  " in run(operations=["weather/get"])


FOLLOWED = {
    "property named default": "Wind: {properties: {default: %s}}",
    "property named x-more": "Wind: {properties: {x-more: %s}}",
    "property named enum": "Wind: {properties: {enum: {items: %s}}}",
    "items": "Wind: {items: %s}",
    "part": "Wind: {allOf: [%s]}",
    "properties of properties": "Wind: {properties: {properties: %s}}",
}


@pytest.mark.parametrize("text", FOLLOWED.values(), ids=FOLLOWED)
def test_schema_references_are_followed_under_any_name(
    text: str, run: Run, service: Path, pinned: Path
) -> None:
    target = "{$ref: '#/x-parts/schemas/Place'}"
    service.write_text(DOCUMENT.replace("Wind: {type: number}", text % target))
    run("--from", service)
    moved = json.loads(pinned.read_text())["components"]["x-moved"]
    assert {"type": "string", "maxLength": 40} in moved.values()
    service.write_text(DOCUMENT.replace("Wind: {type: number}", text % GONE))
    with pytest.raises(CommandError, match=r"'gone\.yaml#/x', in another document"):
        run("--from", service)


def test_response_named_default_is_followed(run: Run, service: Path, pinned: Path) -> None:
    service.write_text(DOCUMENT.replace('"200":', "default:"))
    run("--from", service, operations=["weather/get"])
    assert sorted(json.loads(pinned.read_text())["components"]["schemas"]) == ["Weather", "Wind"]


def test_sources_of_other_kinds_have_no_document(run: Run) -> None:
    with pytest.raises(CommandError, match="Unknown source 'wether'"):
        run(alias="wether")
    with pytest.raises(CommandError, match=r"\['rpc'\] is not an OpenAPISource"):
        run(alias="rpc")
    with pytest.raises(CommandError, match="unknown option 'retries'"):
        run(retries=3)
    with pytest.raises(CommandError, match="does not use TLS"):
        run("--from", "http://weather.example/api.json")
