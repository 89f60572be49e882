from __future__ import annotations

import uuid
from datetime import date

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.utils import timezone
from simple_history.models import HistoricalRecords


class Shelf(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=20, unique=True)

    def __str__(self):
        return self.name


class Tag(models.Model):
    code = models.SlugField(primary_key=True)
    text = models.TextField(blank=True)

    def __str__(self):
        return self.code


class Item(models.Model):
    class Kind(models.IntegerChoices):
        TOOL = 1, "Tool"
        PART = 2, "Part"

    name = models.CharField(max_length=40)
    kind = models.IntegerField(choices=Kind, default=Kind.PART)
    shelf = models.ForeignKey(Shelf, models.SET_NULL, null=True, blank=True)
    tags = models.ManyToManyField(Tag, blank=True)
    price = models.DecimalField(max_digits=7, decimal_places=2, validators=[MinValueValidator(0)])
    weight = models.FloatField(null=True, blank=True)
    active = models.BooleanField(default=True)
    checked = models.BooleanField(null=True, blank=True)
    bought = models.DateField(default=date.today)
    counted_at = models.DateTimeField(default=timezone.now)
    opens = models.TimeField(null=True, blank=True)
    lasts = models.DurationField(null=True, blank=True)
    data = models.JSONField(default=dict, blank=True)
    picture = models.FileField(upload_to="pictures", blank=True)
    address = models.GenericIPAddressField(null=True, blank=True)
    page = models.URLField(blank=True)
    number = models.UUIDField(null=True, blank=True)
    keeper = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True)
    history = HistoricalRecords()

    def __str__(self):
        return self.name


class Move(models.Model):
    item = models.ForeignKey(Item, models.CASCADE)
    day = models.DateField()
    amount = models.IntegerField(default=1)

    def __str__(self):
        return f"{self.amount} on {self.day}"


class Label(models.Model):
    item = models.OneToOneField(Item, models.CASCADE)
    text = models.CharField(max_length=10)

    def __str__(self):
        return self.text
