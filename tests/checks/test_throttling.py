"""System checks of throttle classes and rates."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.throttling import UserRateThrottle

from mcp_bridge.checks.deployment import check_deployment
from mcp_bridge.testing.serving import serve
from tests.checks.test_checks import found

DRF = "rest_framework.throttling"
TOOLS = "mcp_bridge.access.throttling.ToolRateThrottle"
REDIS = "django.core.cache.backends.redis.RedisCache"


class Unscoped(UserRateThrottle):
    scope = "unscoped"


class FixedRate(UserRateThrottle):
    rate = "5/min"


def report() -> str:
    """Write a report."""
    return "written"


def said(settings: Any, throttle: str | None = None, **given: Any) -> list[tuple[str, str]]:
    """Return the ids and texts for one tool with that mark, under these settings."""
    settings.MCP_BRIDGE = given
    serve(settings, report, throttle=throttle)
    return [(str(each.id).removeprefix("mcp_bridge."), each.msg) for each in found()]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"throttle": "5/min"},
        {"throttle": "seldom", "THROTTLE_RATES": {"seldom": "1/day", "report": None}},
        {"THROTTLE_RATES": {"user": "5/s"}, "THROTTLE_CLASSES": [f"{DRF}.UserRateThrottle"]},
        {"THROTTLE_CLASSES": [f"{__name__}.FixedRate"]},
        {"THROTTLE_CLASSES": [f"{DRF}.ScopedRateThrottle"], "THROTTLE_RATES": {"uploads": "5/s"}},
        {"THROTTLE_CLASSES": []},
    ],
)
def test_valid_settings_cause_no_message(given: dict[str, Any], settings: Any) -> None:
    assert said(settings, **given) == []


@pytest.mark.parametrize(
    ("id", "given", "text"),
    [
        ("E002", {"THROTTLE_RATES": {"report": "5/week"}}, "['report'] is '5/week', which is no"),
        ("E008", {"THROTTLE_CLASSES": ["no.such.Throttle"]}, "'no.such.Throttle', which cannot be"),
        ("E020", {"THROTTLE_CLASSES": ["builtins.dict"]}, "not a subclass of BaseThrottle"),
        ("E020", {"THROTTLE_CLASSES": [f"{DRF}.UserRateThrottle"]}, "scope 'user' lacks a rate"),
        ("E020", {"THROTTLE_CLASSES": [f"{__name__}.Unscoped"]}, "'unscoped' scope"),
        ("E020", {"THROTTLE_CLASSES": ["operator.eq"]}, "cannot be used (TypeError"),
        ("E021", {"throttle": "seldom"}, "test_throttling.py:"),
        ("W020", {"THROTTLE_RATES": {"reprot": "5/min"}}, "'reprot', which is not a tool"),
        ("W021", {"throttle": "5/min", "THROTTLE_CLASSES": []}, "lacks a ToolRateThrottle"),
    ],
)
def test_invalid_settings_cause_a_message(
    id: str, given: dict[str, Any], text: str, settings: Any
) -> None:
    (message,) = said(settings, **given)
    assert message[0] == id
    assert text in message[1]


@pytest.mark.parametrize(
    ("throttle", "is_name"), [("seldom", True), ("20 per min", False), ("20min", False)]
)
def test_e021_distinguishes_invalid_rates_from_names(
    throttle: str, is_name: bool, settings: Any
) -> None:
    serve(settings, report, throttle=throttle)
    (message,) = found()
    assert message.id == "mcp_bridge.E021"
    assert (f"Add {throttle!r} to it" in str(message.hint)) is is_name
    assert (f"{throttle!r} is not a rate" in str(message.hint)) is not is_name
    assert '"20/min"' in str(message.hint)


@pytest.mark.parametrize(
    ("cache", "warned"),
    [
        ({"BACKEND": REDIS, "LOCATION": "redis://localhost"}, True),
        ({"BACKEND": REDIS, "LOCATION": ["redis://localhost"]}, True),
        ({"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://localhost"}, True),
        ({"BACKEND": REDIS, "LOCATION": "redis://localhost?socket_timeout=0.3"}, False),
        ({"BACKEND": REDIS, "OPTIONS": {"socket_timeout": 0.3}}, False),
        ({"BACKEND": "django_redis.cache.RedisCache", "OPTIONS": {"SOCKET_TIMEOUT": 1}}, False),
        ({"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}, False),
    ],
)
def test_w022_redis_without_a_timeout(cache: Any, warned: bool, settings: Any) -> None:
    settings.CACHES = {"default": cache}
    assert [id for id, _ in said(settings, "5/min")] == ["W022"] * warned
    # Without a rate, the cache is not used.
    assert said(settings) == []


@pytest.mark.django_db
def test_w093_replies_in_a_private_cache(settings: Any, tmp_path: Any) -> None:
    private = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    shared = {
        "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
        "LOCATION": str(tmp_path),
    }
    for asks, cache, warned in ((60, private, True), (60, shared, False), (False, private, False)):
        settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "LEGACY_ASK": asks}
        settings.CACHES = {"default": cache}
        messages = check_deployment()
        ids = [message.id for message in messages]
        assert ("mcp_bridge.W093" in ids) is warned
