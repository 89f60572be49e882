from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bridge.admin.schema_tables import parameters
from mcp_bridge.admin.try_tool import ArgumentsForm
from tests.schemas import examples as ex
from tests.support.page import render
from tests.support.schemas import input_schema
from tests.support.serving import taking
from tests.support.values import label

HINTS: list[Any] = [
    *(ex.Colour, ex.Level, ex.Kind, ex.Mixed, ex.Point, ex.Described, ex.Options, ex.Named),
    *(ex.Book, ex.Closed, ex.Page[int], ex.Page[ex.Book], ex.Payment, ex.Card | ex.Cash),
    *(ex.Node, ex.Linked, ex.Hen, ex.Tree, ex.Folder, ex.Forest, ex.Book | None),
    *(Any, bytes, None, int | str | None, Literal[1, "a", None], dict[str, ex.Point]),
    *(list[ex.Point], list[list[int]], tuple[int, str], set[str], list[int] | dict[str, int]),
]
TEXTS = ["", " ", "null", '""', "[]", "{}", "1", "[1]", "true", "\r\n", "1\r\n2", "a", "{", "é\x00"]


@pytest.mark.parametrize("hint", HINTS, ids=label)
def test_every_kind_of_parameter_has_a_table(hint: Any) -> None:
    schema = input_schema(taking(hint))
    page = render("parameters", rows=parameters(schema), caption="Takes", raw="{}")
    assert len(page.all("caption")) == 1
    assert all(each["scope"] for each in page.all("th"))
    assert len(page.all("details")) == 1


@pytest.mark.parametrize("hint", HINTS, ids=label)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_every_kind_of_parameter_has_a_form(hint: Any, data: st.DataObject) -> None:
    schema = input_schema(taking(hint))
    page = render("arguments", form=ArgumentsForm(schema))
    page.check()
    texts = st.sampled_from(TEXTS) | st.text(max_size=9)
    typed = {f"arguments-{name}": data.draw(texts) for name in page.names()}
    form = ArgumentsForm(schema, typed)
    if form.is_valid():
        assert form.arguments().keys() <= {"value"}
    else:
        assert set(form.errors) <= set(page.names())
    render("arguments", form=form).check()
