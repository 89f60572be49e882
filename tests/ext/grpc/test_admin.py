"""Administrators try a method as they try any tool."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.urls import path

from mcp_bridge.testing.serving import route
from tests.ext.grpc.conftest import Offer
from tests.ext.grpc.test_types import EVERY
from tests.support.administrator import Administrator, row
from tests.support.protobuf import compiled

NAMED = '(Everything) { option (mcp_bridge.tool) = {name: "of", read_only: true}; }'
DATA = compiled(EVERY.replace("(Everything);", NAMED))


def test_message_with_fields_of_every_type_is_tried(offer: Offer, settings: Any) -> None:
    offer(DATA, {"Of": lambda request, sent, context: request})
    route(settings, path("admin/", admin.site.urls))
    administrator = Administrator()
    administrator.get("changelist")
    form = administrator.get("try", row("of").pk)
    assert 'name="arguments-i32"' in form
    sent = {
        **{"i32": "7", "text": "seven", "kind": '"SMALL"', "children": '[{"i64": "1"}]'},
        "moment": "2026-01-02T03:04:05Z",
    }
    answer = administrator.post(
        "try", row("of").pk, **{f"arguments-{name}": each for name, each in sent.items()}
    )
    assert "errorlist" not in answer
    assert "2026-01-02T03:04:05Z" in answer
