"""Every result that the tests know fits its output schema, as clients assert it."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from tests.support.schemas import ASSERTED
from tests.support.serving import messages


@pytest.mark.filterwarnings("ignore")
def test_every_result_fits_with_formats_asserted(modern: CheckedClient, settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.clients.results"
    assert messages("mcp_bridge.E006") == []
    tools = modern.list_tools()
    assert len(tools) > 250
    wrong: list[str] = []
    for each in tools:
        answer = modern.call_tool(each["name"])
        if answer["isError"]:
            wrong.append(f"{each['name']}: {text_of(answer)}")
        elif "outputSchema" in each:
            validator = Draft202012Validator(each["outputSchema"], format_checker=ASSERTED)
            found = validator.iter_errors(answer["structuredContent"])
            wrong += [f"{each['name']}: {error.message}" for error in found]
    assert wrong == []
