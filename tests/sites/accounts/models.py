from __future__ import annotations

import uuid

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.db import models


class PersonManager(BaseUserManager):
    def create_user(self, email, password, **fields):
        person = self.model(email=self.normalize_email(email), **fields)
        person.set_password(password)
        person.save(using=self._db)
        return person


class Person(AbstractBaseUser):
    """A user by Django's page on custom user models: no username, no groups, no permissions."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    email = models.EmailField(unique=True)
    name = models.CharField(max_length=50)
    is_active = models.BooleanField(default=True)
    role = models.CharField(max_length=10, default="reader")

    objects = PersonManager()

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS = ["name"]

    def __str__(self):
        return self.name

    @property
    def is_staff(self):
        return self.role == "admin"

    def has_perm(self, perm, obj=None):
        return self.role == "admin" or (self.role == "editor" and perm.endswith("_note"))

    def has_module_perms(self, app_label):
        return self.role == "admin"
