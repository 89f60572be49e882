"""Django's choices as ``enum`` with their labels, and times as its forms take them."""

from __future__ import annotations

import datetime

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import Choices
from django.forms.utils import from_current_timezone
from django.utils import timezone
from pydantic import Field
from pydantic_core import PydanticCustomError

from mcp_bridge.schemas.adapters import Adapter
from mcp_bridge.schemas.django.hints import labels
from mcp_bridge.schemas.hints import annotate


class ChoicesAdapter(Adapter):
    """TextChoices, IntegerChoices, and other subclasses of Choices."""

    def parameter(self, hint: object, metadata: tuple[object, ...]) -> object:
        if not (isinstance(hint, type) and issubclass(hint, Choices) and list(hint)):
            return None
        text = labels((each.value, each.label) for each in hint)
        return annotate(hint, Field(description=text), *metadata)


def in_site_time(value: datetime.datetime) -> datetime.datetime:
    """
    Return a time as the site keeps it.

    With USE_TZ one without an offset is of the current time zone; without USE_TZ one with an offset
    becomes the naive one of the default time zone. Raises pydantic's error for a time that the zone
    skips or has twice, and for one that Python cannot hold.
    """
    if not settings.USE_TZ and timezone.is_aware(value):
        default = timezone.get_default_timezone()
        try:
            return timezone.make_naive(value, default)
        except OverflowError as exception:
            text = "is before the year 1 or after the year 9999 in the time zone {zone}"
            raise PydanticCustomError("datetime_range", text, {"zone": str(default)}) from exception
    try:
        aware: datetime.datetime = from_current_timezone(value)
    except ValidationError as exception:
        text = "is skipped or ambiguous in the time zone {zone}; send it with an offset"
        zone = timezone.get_current_timezone_name()
        raise PydanticCustomError("datetime_zone", text, {"zone": zone}) from exception
    return aware
