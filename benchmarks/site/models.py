"""The bearer tokens of the empty view, the least that one written by hand has, and what is kept."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class FloorToken(models.Model):
    digest = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)


class Note(models.Model):
    text = models.CharField(max_length=200)
