"""Results that fit their schema are sent, and sent results fit."""

from __future__ import annotations

import collections
import datetime
import decimal
import ipaddress
import json
import pathlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import AnyUrl, SecretStr

from mcp_bridge.calls.results import write
from mcp_bridge.schemas import Outputs
from tests.schemas import configured as conf
from tests.schemas import examples as ex
from tests.support.schemas import ASSERTED
from tests.support.values import label

INDIA = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
RESULTS: list[tuple[Any, Any, Any]] = [
    (conf.Square, conf.Square(side=2), {"side": 2, "area": 4}),
    (conf.Shouting, conf.Shouting(word=1), {"word": "1!"}),
    (conf.Other, conf.Other(x=1), {"z": 1}),
    (conf.Renamed, conf.Renamed(x=1), {"ex": 1}),
    (conf.Aliased, conf.Aliased(title=1), {"title": 1}),
    (conf.Reserved, conf.Reserved(x=1), {"x": 1}),
    (conf.Lax, conf.Lax(x=1), {"x": 1}),
    (conf.OpenDict, {"x": 1, "more": 2}, {"x": 1, "more": 2}),
    (conf.Partial, {}, {}),
    (conf.Numbers, conf.Numbers([1]), {"result": [1]}),
    (conf.Box[ex.Point], conf.Box[ex.Point](x=ex.Point(1)), {"x": {"x": 1, "y": 0}}),
    (conf.Half, conf.Half.ONE, {"result": 1.0}),
    (conf.Tricky, conf.Tricky(), {"spec": {"type": "date", "strict": False}, "x": 0}),
    (conf.Counted, conf.Counted(2), {"x": 2, "double": 4}),
    (conf.Unique, conf.Unique.model_construct(slug="old"), {"slug": "old"}),
    (conf.Once, conf.Once.model_construct(slug="old"), {"slug": "old"}),
    (ex.Payment, ex.Cash(method="cash", kind="x"), {"result": {"method": "cash", "kind": "x"}}),
    (ex.Named, ex.Named(1), {"result": [1, "x"]}),
    (ex.Linked, ex.Linked(ex.Linked()), {"next": {"next": None}}),
    (ex.Folder, ex.Folder(folders={"a": ex.Folder()}), {"folders": {"a": {"folders": {}}}}),
    (datetime.timedelta, datetime.timedelta(days=-1), {"result": "-P1D"}),
    (datetime.date, datetime.date(999, 1, 2), {"result": "0999-01-02"}),
    (datetime.time, datetime.time(1, 2), {"result": "01:02:00"}),
    (datetime.datetime, datetime.datetime(2024, 1, 2, 3, 4, 5, 6), None),
    (datetime.datetime, datetime.datetime(2024, 1, 2, tzinfo=INDIA), None),
    (datetime.datetime | datetime.date, datetime.date(2024, 1, 2), {"result": "2024-01-02"}),
    (decimal.Decimal, decimal.Decimal("1E+5"), {"result": "1E+5"}),
    (decimal.Decimal, decimal.Decimal("-0.00"), {"result": "-0.00"}),
    (uuid.UUID, uuid.UUID(int=5), {"result": "00000000-0000-0000-0000-000000000005"}),
    (bytes, b"", {"result": ""}),
    (float, 5, {"result": 5.0}),
    (float, 1e300, {"result": 1e300}),
    (int | bool, True, {"result": True}),
    (Literal[1, True], True, {"result": True}),
    (list[ex.Level], [ex.Level.HIGH], {"result": [2]}),
    (dict[datetime.date, int], {datetime.date(2024, 1, 2): 1}, {"2024-01-02": 1}),
    (dict[ex.Colour, int], {ex.Colour.RED: 1}, {"red": 1}),
    (collections.Counter[str], collections.Counter("aa"), {"a": 2}),
    (Sequence[int], (1, 2), {"result": [1, 2]}),
    (Mapping[str, int], {"a": 1}, {"a": 1}),
    (frozenset[str], frozenset("a"), {"result": ["a"]}),
    (pathlib.Path, pathlib.Path("/a"), {"result": "/a"}),
    (ipaddress.IPv4Address, ipaddress.IPv4Address("1.2.3.4"), {"result": "1.2.3.4"}),
    (AnyUrl, AnyUrl("https://example.com/a"), {"result": "https://example.com/a"}),
    (SecretStr, SecretStr("SECRET-MARKER"), {"result": "**********"}),
]


@pytest.mark.parametrize(("hint", "value", "expected"), RESULTS, ids=label)
def test_valid_result_is_written(hint: Any, value: Any, expected: Any) -> None:
    outputs = Outputs(hint)
    structured = json.loads(write(outputs, value)[1])
    assert expected is None or structured == expected
    checker = ASSERTED
    assert outputs.schema is not None
    Draft202012Validator(outputs.schema, format_checker=checker).validate(structured)


def test_generator_is_written_as_a_list() -> None:
    plain, _ = write(Outputs(Iterable[int]), (number for number in range(3)))
    assert plain == b"[0,1,2]"
