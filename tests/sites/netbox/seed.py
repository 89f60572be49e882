"""Make one row of each model that can be filled by the types of its fields, and three users."""

from __future__ import annotations

import os

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db import models, transaction
from netaddr import IPNetwork
from users.models import ObjectPermission

APPS = ("tenancy", "dcim", "ipam", "circuits", "virtualization", "vpn", "wireless", "extras")
NAMED = {
    "prefix": "10.0.0.0/16",
    "address": "10.0.0.1/24",
    "start_address": IPNetwork("10.0.0.10/24"),
    "end_address": IPNetwork("10.0.0.20/24"),
    "mac_address": "02:00:00:00:00:01",
    "color": "aa1409",
    "payload_url": "https://example.com/",
    "units": [1],
    "columns": ["name"],
    "event_types": ["object_created"],
}
NUMBERS = (models.IntegerField, models.FloatField, models.DecimalField)
TYPES = {models.CharField: "one", models.TextField: "one", models.JSONField: {}}


def wanted(field: models.Field) -> bool:
    return not (
        field.null or field.has_default() or field.primary_key or getattr(field, "auto_now", False)
    )


def value(field: models.Field) -> object:
    if field.name in NAMED:
        return NAMED[field.name]
    if field.is_relation:
        return row(field.related_model)
    if choices := field.flatchoices:
        return choices[0][0]
    if isinstance(field, NUMBERS):
        return 1
    return next((TYPES[kind] for kind in TYPES if isinstance(field, kind)), None)


def row(model: type[models.Model]) -> models.Model:
    """Return the first row of a model, which is made if there is none."""
    found = model.objects.first()
    if found is None:
        names = {field.name: field for field in model._meta.concrete_fields}
        given = {name: value(field) for name, field in names.items() if wanted(field)}
        given |= {name: "one" for name in ("name", "slug") if name in names}
        found = model(**given)
        with transaction.atomic():
            found.save()
    return found


User = get_user_model()
people = [User.objects.create_user(name) for name in os.environ["SITE_USERS"].split()]
made = []
for model in (each for app in APPS for each in apps.get_app_config(app).get_models()):
    try:
        made.append(row(model))
    except Exception as exception:
        print(f"no row of {model.__name__}: {exception!r}"[:200])
print(f"{len(made)} models have a row")
# The reader may see some objects of one model, the editor all of an app, the admin everything.
granted = {"reader": (("site",), {"name": "one"}), "editor": ((), None)}
for person in people:
    if person.username == "admin":
        User.objects.filter(pk=person.pk).update(is_superuser=True)
        continue
    names, constraints = granted[person.username]
    permission = ObjectPermission.objects.create(
        name=person.username, actions=["view"], constraints=constraints
    )
    kinds = ContentType.objects.filter(app_label="dcim")
    permission.object_types.set(kinds.filter(model__in=names) if names else kinds)
    permission.users.add(person)
