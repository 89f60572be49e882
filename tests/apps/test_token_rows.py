"""Tokens and their users are loaded as by the ORM, for any user model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apps.test_user_models import PROCEDURES, START
from tests.support.processes import run_python

pytestmark = pytest.mark.alone

MODELS = """
import uuid
from django.conf import settings
from django.contrib.auth.models import (
    AbstractBaseUser, AbstractUser, BaseUserManager, PermissionsMixin
)
from django.db import models
from django.utils import timezone

class PersonManager(BaseUserManager):
    def get_queryset(self):
        # Nothing of what a token's user is joined by.
        return super().get_queryset().defer("settings").exclude(pk__isnull=True)

class Words(models.TextField):
    def from_db_value(self, value, expression, connection):
        return None if value is None else value.split()

    def get_prep_value(self, value):
        return " ".join(value)

class Code(models.CharField):
    # The key has another form in the database.
    def from_db_value(self, value, expression, connection):
        return None if value is None else "code " + value

    def get_prep_value(self, value):
        return None if value is None else str(value).removeprefix("code ")

class Odd(AbstractBaseUser, PermissionsMixin):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    login = models.CharField(max_length=20, unique=True)
    settings = models.JSONField(default=dict)
    price = models.DecimalField(max_digits=8, decimal_places=3, default="1.250")
    born = models.DateField(null=True)
    wakes = models.TimeField(default="07:30")
    stays = models.DurationField(null=True)
    words = Words(default=list)
    key = models.BinaryField(default=bytes([0, 255]))
    address = models.GenericIPAddressField(null=True)
    seen = models.DateTimeField(default=timezone.now)
    first = models.CharField(max_length=20, db_column="First Name", default="x%s")
    objects = PersonManager()
    USERNAME_FIELD = "login"

    class Meta:
        swappable = "AUTH_USER_MODEL"

    @classmethod
    def from_db(cls, db, field_names, values, **kwargs):
        found = super().from_db(db, field_names, values, **kwargs)
        found.made_from = list(field_names)
        return found

class Coded(AbstractBaseUser, PermissionsMixin):
    login = Code(max_length=20, primary_key=True)
    objects = BaseUserManager()
    USERNAME_FIELD = "login"

    class Meta:
        swappable = "AUTH_USER_MODEL"

class Base(models.Model):
    town = models.CharField(max_length=20, default="Rome")

class Heir(AbstractUser, Base):
    base_ptr = models.OneToOneField(Base, models.CASCADE, parent_link=True, primary_key=True)

    class Meta:
        swappable = "AUTH_USER_MODEL"

class Through(models.Model):
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    group = models.ForeignKey("auth.Group", models.CASCADE)
    ended = models.BooleanField(default=False)

class Joined(AbstractBaseUser, PermissionsMixin):
    login = models.CharField(max_length=20, unique=True)
    groups = models.ManyToManyField("auth.Group", through=Through, related_name="user_set",
                                    related_query_name="user")
    objects = BaseUserManager()
    USERNAME_FIELD = "login"

    class Meta:
        swappable = "AUTH_USER_MODEL"
"""
COMPARE = """
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from mcp_bridge.access.policy import lacking
NAMES = ["auth.change_group", "auth.add_group", "auth.view_group"]

def state(found):
    hidden = ("_state", "_perm_cache", "_user_perm_cache", "_group_perm_cache")
    values = {name: value for name, value in vars(found).items() if name not in hidden}
    return {name: (type(value), value) for name, value in values.items()}

def compare(user, more=2):
    token, secret = Token.objects.issue(user=user, name="x", tools=["ping", "rename"])
    for _ in range(3):
        with CaptureQueriesContext(connection) as queries:
            found = Token.objects.find(secret)
            found_user = found.user
        assert len(queries) == 1, list(queries)
        expected = Token.objects.select_related("user").get(pk=token.pk)
        assert state(found) == state(expected)
        assert state(found_user) == state(expected.user), (state(found_user), state(expected.user))
        for each in (found, found_user):
            assert (each._state.db, each._state.adding) == ("default", False)
        assert not found_user.get_deferred_fields() and type(found_user) is User
        assert Token.objects.find(secret).user is not found_user
        assert Token.objects.find(secret + "x") is None
        assert user.mcp_tokens.find(secret) == token
    Token.objects.get(pk=token.pk).delete()
    assert Token.objects.find(secret) is None
    if more:
        permit(user)

def permit(user):
    group = Group.objects.create(name="some")
    add, change = (Permission.objects.get(codename=each) for each in ("add_group", "change_group"))
    user.user_permissions.add(change)
    group.permissions.add(add)
    through = getattr(User.groups.through, "_meta").auto_created
    user.groups.add(group, **({} if through else {"through_defaults": {}}))
    for _ in range(2):
        fresh = User.objects.get(pk=user.pk)
        assert [*lacking(fresh, NAMES)] == ["auth.view_group"]
        assert tools(user) == ["ping", "rename"]
    user.user_permissions.clear()
    assert [*lacking(User.objects.get(pk=user.pk), NAMES)] == [NAMES[0], NAMES[2]]
    assert tools(user) == ["ping"]
    User.objects.filter(pk=user.pk).update(is_superuser=True)
    assert tools(user) == ["ping", "rename"]
"""
STORIES = {
    "Odd": """
import datetime
user = User.objects.create(login="a", settings={"a": [1]}, born=datetime.date(2001, 2, 3),
    stays=datetime.timedelta(days=1, microseconds=5), words=["b", "c"], address="::1")
compare(user)
""",
    "Coded": """
compare(User.objects.create(login="code a/b c"))
""",
    "Heir": """
compare(User.objects.create(username="a"))
""",
    "Joined": """
compare(User.objects.create(login="a"))
""",
}


@pytest.mark.parametrize("model", STORIES)
def test_loaded_rows_equal_those_of_the_orm(tmp_path: Path, model: str) -> None:
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "__init__.py").touch()
    (tmp_path / "people" / "models.py").write_text(MODELS)
    (tmp_path / "site_urls.py").write_text(PROCEDURES)
    run_python("-c", START + COMPARE + STORIES[model], str(tmp_path), model)


ROUTED = """
ROUTER = __import__("types").ModuleType("site_router")
class Apart:
    # Accounts are in a database of their own, read from its copy.
    def apart(self, model):
        return model._meta.app_label in ("auth", "people", "contenttypes", "mcp_bridge_tokens")
    def db_for_read(self, model, **hints):
        return READ[0] if self.apart(model) else None
    def db_for_write(self, model, **hints):
        return "accounts" if self.apart(model) else None
    def allow_relation(self, *objects, **hints):
        return True
ROUTER.Apart = Apart
sys.modules["site_router"] = ROUTER
READ = ["accounts"]
"""
ROUTED_STORY = """
call_command("migrate", database="accounts", run_syncdb=True, verbosity=0)
from django.db import connections
user = User.objects.create(login="a", is_superuser=False)
assert user._state.db == "accounts"
permit(user)
User.objects.filter(pk=user.pk).update(is_superuser=False)
secret = credential(user)
found = Token.objects.find(secret)
assert (found._state.db, found.user._state.db) == ("accounts", "accounts")
READ[0] = "default"
assert Token.objects.find(secret) is None
assert Token.objects.db_manager("accounts").find(secret) == found
READ[0] = "accounts"
with CaptureQueriesContext(connections["accounts"]) as queries:
    assert tools(user) == ["ping"]
assert any("mcp_bridge_tokens_token" in query["sql"] for query in queries)
"""


def test_router_selects_the_database_of_tokens_and_rights(tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "__init__.py").touch()
    (tmp_path / "people" / "models.py").write_text(MODELS)
    (tmp_path / "site_urls.py").write_text(PROCEDURES)
    start = START.replace(
        "    DATABASES={",
        '    DATABASE_ROUTERS=["site_router.Apart"],\n    DATABASES={"accounts": '
        '{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}, ',
    ).replace(
        "from django.conf import settings\n", ROUTED + "from django.conf import settings\n", 1
    )
    run_python("-c", start + COMPARE + ROUTED_STORY, str(tmp_path), "Odd")
