"""Schemas are built once for each tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from django import forms

from mcp_bridge.schemas import Inputs, Signature
from tests.support.serving import taking


class CountedForm(forms.Form):
    made = 0
    number = forms.IntegerField()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        CountedForm.made += 1


@dataclass
class Order:
    form: CountedForm


@dataclass
class Noted:
    form: Annotated[CountedForm, ["a note that has no hash"]]


@pytest.mark.parametrize("hint", [CountedForm, Order, list[Order], Order | None, dict[str, Order]])
def test_form_is_instantiated_once_for_a_parameter(hint: Any) -> None:
    CountedForm.made = 0
    inputs = Inputs(Signature.of(taking(hint)))
    assert (inputs.errors, CountedForm.made) == ([], 1)


def test_metadata_need_not_be_hashable() -> None:
    inputs = Inputs(Signature.of(taking(Noted)))
    assert inputs.errors == []
    assert "number" in str(inputs.schema)
