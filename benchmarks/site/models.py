"""The bearer tokens of the floor: the least that a view written by hand would have."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class FloorToken(models.Model):
    digest = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
