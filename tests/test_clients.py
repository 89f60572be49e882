"""The pages in docs/clients/ match the results of the last ``make clients``."""

from __future__ import annotations

import json
from pathlib import Path

from tests.clients import table
from tests.clients.converters.compare import compare
from tests.clients.environments import versions
from tests.clients.roster import CLIENTS, NOT_RUN

PAGES = Path(__file__).parents[1] / "docs" / "clients"


def test_documented_table_matches_the_results() -> None:
    written = table.PAGE.read_text().split(table.BEGIN)[1].split(table.END)[0]
    assert written == table.rendered()


def test_every_client_has_results_of_its_pinned_version() -> None:
    pinned = versions()
    stored = {name: row["version"] for name, row in table.stored().items()}
    assert stored == {client.name: pinned[client.package] for client in CLIENTS}


def test_every_client_has_a_page() -> None:
    run = {client.page for client in CLIENTS}
    not_run = {page for _, page, _ in NOT_RUN}
    assert {path.stem for path in PAGES.glob("*.md")} == run | not_run | {"README"}
    said = {page for page in run | not_run if "Not run by our gate" in read(page)}
    assert said == not_run


def read(page: str) -> str:
    return (PAGES / f"{page}.md").read_text()


def test_comparison_finds_losses_of_a_converter() -> None:
    given = {
        "type": "object",
        "properties": {
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            "order": {"enum": ["up", "down"], "type": "string"},
        },
        "additionalProperties": False,
    }
    assert compare(given, json.loads(json.dumps(given))) == []
    made = {
        "type": "object",
        "properties": {"tags": {"type": "string"}, "order": {"enum": ["up"]}},
    }
    assert [(each.path, each.message) for each in compare(given, made)] == [
        ("/tags", "does not take array, null"),
        ("/tags", "takes string"),
        ("/order", 'has lost the choices "down"'),
    ]
    assert [each.message for each in compare(given, {"type": "object"})] == [
        "does not know the members order, tags"
    ]
