from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import Field

from mcp_bridge import Context
from mcp_bridge.schemas import Signature
from tests.support.schemas import description, input_schema

REST = """
Find articles.

The newest come first.

:param text: what to look for,
    in any order
:type text: str
:param int limit: how many
:returns: the articles
:raises ToolError: when there are none
"""
GOOGLE = """
Find articles.

The newest come first.

Args:
    text: what to look for,
        in any order
    limit (int): how many

Returns:
    the articles

Raises:
    ToolError: when there are none
"""
NUMPY = """
Find articles.

The newest come first.

Parameters
----------
text
    what to look for,
    in any order
limit : int
    how many

Returns
-------
list
    the articles
"""


def documented(text: str | None) -> Any:
    def find(text, limit=10):  # type: ignore[no-untyped-def]
        ...

    find.__doc__ = text
    return find


@pytest.mark.parametrize("style", [REST, GOOGLE, NUMPY], ids=["reST", "Google", "NumPy"])
def test_every_docstring_style_is_parsed(style: str) -> None:
    function = documented(style)
    assert description(function) == "Find articles.\n\nThe newest come first."
    assert input_schema(function)["properties"] == {
        "text": {"description": "what to look for, in any order"},
        "limit": {"description": "how many", "default": 10},
    }


@pytest.mark.parametrize("style", [REST, GOOGLE, NUMPY], ids=["reST", "Google", "NumPy"])
def test_docstring_indentation_is_removed(style: str) -> None:
    indented = documented("\n".join(f"    {line}" for line in style.splitlines()))
    assert description(indented) == "Find articles.\n\nThe newest come first."


@pytest.mark.parametrize(
    "text",
    [
        "Find articles.",
        "Find articles: all of them.",
        "Find articles.\n\nUse it for:\n\n- one: a thing\n- two: another",
        "Find articles.\n\nExample::\n\n    find(1)",
        "Find articles.\n\nNote:\n    Be careful.",
        "A sentence that is longer than one line\nand goes on in the next.",
        "One.\n\nTwo.\n\nThree.",
        "Find articles.\n\n:param\n:: no style at all",
        "Finde Artikel: Überschrift, „Text“ 文.",
    ],
)
def test_text_without_parameters_is_the_description(text: str) -> None:
    assert description(documented(text)) == text


@pytest.mark.parametrize(
    ("docstring", "told"),
    [
        (GOOGLE + "\nExample:\n    find('tea')\n", "find('tea')"),
        (GOOGLE + "\nExamples:\n    >>> find('tea')\n", ">>> find('tea')"),
        (NUMPY + "\nNotes\n-----\nSlow at night.\n", "Slow at night."),
    ],
)
def test_only_the_parameter_section_is_removed(docstring: str, told: str) -> None:
    assert told in description(documented(docstring))


@pytest.mark.parametrize("text", [None, "", "   ", "\n"])
def test_missing_docstring_is_an_empty_description(text: str | None) -> None:
    assert description(documented(text)) == ""


def test_docstring_with_only_parameters_describes_them() -> None:
    function = documented(":param text: what to look for")
    assert description(function) == ""
    assert input_schema(function)["properties"]["text"] == {"description": "what to look for"}


def test_documented_names_without_a_parameter_are_ignored() -> None:
    function = documented("Find.\n\n:param nothing: there is none")
    assert list(input_schema(function)["properties"]) == ["text", "limit"]


def annotated_first(value: Annotated[int, "of the hint"]) -> None:
    """
    Take.

    :param value: of the docstring
    """


def field_first(value: Annotated[int, Field(description="of the hint")]) -> None:
    """
    Take.

    :param value: of the docstring
    """


@pytest.mark.parametrize("function", [annotated_first, field_first])
def test_hint_description_overrides_the_docstring(function: Any) -> None:
    assert input_schema(function)["properties"]["value"]["description"] == "of the hint"


def test_docstring_texts_describe_parameters() -> None:
    signature = Signature.of(documented(REST))
    assert [parameter.description for parameter in signature.parameters] == [
        "what to look for, in any order",
        "how many",
    ]


LISTED = """
Find articles.

Args:
    - text: what to look for,
      in any order
    - limit (int): how many
"""
BULLETS = """
Find articles.

Args:
    * `text`: what to look for, in any order
    * `limit`: how many
"""
NUMPY_LIST = """
Find articles.

Parameters
----------
- text : str
    what to look for, in any order
- limit : int
    how many
"""


@pytest.mark.parametrize("style", [LISTED, BULLETS, NUMPY_LIST])
def test_parameters_can_be_a_list(style: str) -> None:
    function = documented(style)
    assert description(function) == "Find articles."
    assert input_schema(function)["properties"] == {
        "text": {"description": "what to look for, in any order"},
        "limit": {"description": "how many", "default": 10},
    }


def test_several_parameters_can_share_a_text() -> None:
    function = documented("Find.\n\nArgs:\n    text, limit: as they are")
    assert [each["description"] for each in input_schema(function)["properties"].values()] == [
        "as they are"
    ] * 2


@pytest.mark.parametrize(
    "style",
    [
        "Find.\n\nArgs:\n    text: what\n    order: by which\n        field",
        "Find.\n\nArgs:\n    - text: what\n    - order (str): by which field",
        "Find.\n\n:param text: what\n:param order: by which field",
        "Find.\n\nParameters\n----------\norder : str\n    by which field\ntext\n    what",
    ],
    ids=["Google", "list", "reST", "NumPy"],
)
def test_text_of_a_removed_parameter_is_kept(style: str) -> None:
    function = documented(style)
    assert description(function) == "Find.\n\nArgs:\norder: by which field"
    assert input_schema(function)["properties"]["text"] == {"description": "what"}


def test_text_of_other_keywords_is_kept() -> None:
    def find(text, **options):  # type: ignore[no-untyped-def]
        """
        Find.

        Args:
            text: what
            **options: sent to the index
            boost: one of them
        """

    assert description(find) == "Find.\n\nArgs:\noptions: sent to the index\nboost: one of them"


def test_text_of_injected_parameters_is_removed() -> None:
    def find(context: Context, text: str) -> None:
        """
        Find.

        Args:
            context: who calls
            text: what
        """

    assert description(find) == "Find."
