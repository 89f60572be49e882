"""The administrators' pages of clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin import AdminSite
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone
from oauth2_provider.models import get_application_model

from mcp_bridge.oauth.admin import ClientAdmin
from mcp_bridge.oauth.models import ClientUse, mark_used
from tests.oauth.browsing import (
    CALLBACK,
    assert_no_query_for_each_client,
    browser_of,
    connect,
    is_let_in,
    refresh,
    register,
    serve_admin,
    text_of,
)
from tests.support.administrator import shown_by
from tests.support.processes import run_python

LIST = "/admin/oauth2_provider/application/"

site = AdminSite()
site.register(get_application_model(), ClientAdmin)


@pytest.fixture(autouse=True)
def with_admin(settings: Any) -> None:
    serve_admin(settings, site)


def staff(*codenames: str) -> Client:
    person = get_user_model().objects.create_user("staff", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return browser_of("staff")


def everything() -> Client:
    get_user_model().objects.create_superuser("root")
    return browser_of("root")


def test_list_shows_clients_and_their_users() -> None:
    client = register(redirect_uris=f"{CALLBACK} http://localhost/callback")
    register(name="Ours", client_id="ours", registration_source="manual")
    for name in ("ada", "bob"):
        connect(browser_of(name), client)
        connect(browser_of(name), client)
    mark_used(get_user_model().objects.get(username="bob"), client)
    ClientUse.objects.update(last_used_at=timezone.now().replace(year=2024, month=5, day=17))
    text = text_of(everything().get(f"{LIST}?o=1"))
    assert "Claude Dynamic Client Registration claude.ai, localhost 2 May 17, 2024" in text
    assert "Ours Manual claude.ai 0 -" in text


def test_list_needs_no_query_per_client(django_assert_num_queries: Any) -> None:
    assert_no_query_for_each_client(everything(), LIST, django_assert_num_queries)


@pytest.mark.parametrize("source", ["dcr", "cimd"])
def test_registered_metadata_is_read_only(source: str) -> None:
    client = register(registration_source=source)
    browser, page = everything(), f"{LIST}{client.pk}/change/"
    shown = browser.get(page)
    assert CALLBACK in text_of(shown)
    assert client.client_secret not in shown.content.decode()
    forged = {"name": "Ours", "redirect_uris": "https://evil.example/", "skip_authorization": "on"}
    assert browser.post(page, forged).status_code == 403
    client.refresh_from_db()
    assert (client.name, client.redirect_uris, client.skip_authorization) == (
        "Claude",
        CALLBACK,
        False,
    )


def test_administrator_can_add_and_change_a_client() -> None:
    browser = everything()
    values = {
        "client_id": "ours",
        "name": "Ours",
        "redirect_uris": CALLBACK,
        "client_type": "confidential",
        "authorization_grant_type": "authorization-code",
        "client_secret": "secret",
        "hash_client_secret": "on",
        "registration_source": "dcr",
    }
    assert browser.post(f"{LIST}add/", values).status_code == 302
    client = get_application_model().objects.get()
    assert (client.name, client.registration_source) == ("Ours", "manual")
    page = f"{LIST}{client.pk}/change/"
    browser.post(page, values | {"name": "Theirs", "_revision": shown_by(browser, page)})
    client.refresh_from_db()
    assert client.name == "Theirs"


def test_stale_form_of_a_client_is_not_saved() -> None:
    client = register(registration_source="manual", client_secret="first")
    browser, page = everything(), f"{LIST}{client.pk}/change/"
    assert client.client_secret
    values = {
        "client_id": client.client_id,
        "name": "Ours",
        "redirect_uris": CALLBACK,
        "client_type": client.client_type,
        "authorization_grant_type": client.authorization_grant_type,
        "client_secret": client.client_secret,
        "hash_client_secret": "on",
        "_revision": shown_by(browser, page),
    }
    colleague = get_application_model().objects.get()
    colleague.redirect_uris = "https://other.example/callback"
    colleague.client_secret = "second"
    colleague.save()
    text = text_of(browser.post(page, values))
    assert "Not saved: this was changed after you opened the page." in text
    assert "second" not in text
    now = get_application_model().objects.get()
    assert (now.name, now.redirect_uris) == (colleague.name, colleague.redirect_uris)
    assert now.client_secret == colleague.client_secret


def revoke(browser: Client, *clients: Any) -> Any:
    data = {"action": "revoke", "_selected_action": [client.pk for client in clients]}
    return browser.post(LIST, data, follow=True)


def test_all_tokens_of_a_client_can_be_revoked() -> None:
    client, other = register(), register(client_id="other")
    tokens = [connect(browser_of(name), client) for name in ("ada", "bob")]
    kept = connect(browser_of("ada"), other)
    page = revoke(everything(), client)
    assert "All tokens of 1 client were revoked." in text_of(page)
    for each in tokens:
        assert refresh(client, each)["error"] == "invalid_grant"
        assert not is_let_in(each)
    assert is_let_in(kept)
    (entry,) = LogEntry.objects.all()
    assert (entry.object_id, entry.get_change_message()) == (str(client.pk), "Revoked all tokens.")


def test_client_is_deleted_with_its_tokens_and_uses() -> None:
    client = register()
    tokens = connect(browser_of(), client)
    assert is_let_in(tokens)
    data = {"action": "delete_selected", "_selected_action": [client.pk], "post": "yes"}
    everything().post(LIST, data)
    assert not is_let_in(tokens)
    assert not ClientUse.objects.exists()
    assert not get_application_model().objects.exists()


@pytest.mark.parametrize(("codename", "revoked"), [("view", False), ("change", True)])
def test_revoking_requires_the_change_permission(codename: str, revoked: bool) -> None:
    client = register()
    tokens = connect(browser_of(), client)
    revoke(staff(f"{codename}_application"), client)
    assert ("error" in refresh(client, tokens)) is revoked


def test_clients_are_hidden_from_other_users() -> None:
    assert staff().get(LIST).status_code == 403
    assert Client().get(LIST).status_code == 302


MODELS = """
import uuid
from django.db import models
from oauth2_provider.models import AbstractApplication

class App(AbstractApplication):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
"""
SITE = """
from django.contrib import admin
from django.urls import include, path
urlpatterns = [path("admin/", admin.site.urls), path("", include("mcp_bridge.oauth.urls")),
               path("", include("mcp_bridge.urls"))]
"""
STORY = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("error")
from django.conf import settings
from mcp_bridge import oauth
address = "https://testserver"
bridge = {"RESOURCE": address + "/mcp", "AUTHORIZATION_SERVERS": [address], "SCOPES": {"mcp": "x"},
          "AUTHENTICATION_CLASSES": ["mcp_bridge.oauth.authentication.TokenAuthentication"]}
own = {"OAUTH2_PROVIDER_APPLICATION_MODEL": "own.App"} if sys.argv[2] == "own" else {}
settings.configure(
    SECRET_KEY="x" * 50, ROOT_URLCONF="site_urls", ALLOWED_HOSTS=["testserver"], USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", STATIC_URL="/static/", LOGIN_URL="/admin/",
    INSTALLED_APPS=["django.contrib." + name for name in
        ("contenttypes", "auth", "sessions", "messages", "staticfiles", "admin")
    ] + sys.argv[3].split() + ["rest_framework", "mcp_bridge"] + ["own"] * bool(own),
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware",
                "django.middleware.csrf.CsrfViewMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.messages.middleware.MessageMiddleware"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
                "OPTIONS": {"context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages"]}}],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    MCP_BRIDGE=bridge, **own,
    OAUTH2_PROVIDER=oauth.settings(issuer=address, resource=bridge["RESOURCE"]),
)
import django
django.setup()
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from oauth2_provider.models import get_application_model
from mcp_bridge.oauth.admin import ClientAdmin
from mcp_bridge.oauth.models import ClientUse, mark_used
call_command("migrate", run_syncdb=True, verbosity=0)
call_command("makemigrations", "mcp_bridge_oauth", check=True, dry_run=True, verbosity=0)
model = get_application_model()
assert type(admin.site.get_model_admin(model)) is ClientAdmin
root = get_user_model().objects.create_superuser("root")
client = model.objects.create(name="Claude", client_type="public", redirect_uris="https://a.example",
                              authorization_grant_type="authorization-code")
mark_used(root, client)
assert ClientUse.objects.get().application == client
browser = Client()
browser.force_login(root)
address = "/admin/%s/%s/" % (model._meta.app_label, model._meta.model_name)
assert "Claude" in browser.get(address).content.decode()
assert "a.example" in browser.get(address + "%s/change/" % client.pk).content.decode()
assert browser.get("/mcp/connections/").status_code == 200
client.delete()
assert not ClientUse.objects.exists()
"""


@pytest.mark.parametrize(
    ("model", "apps"),
    [
        ("own", "oauth2_provider mcp_bridge.oauth"),
        ("toolkit", "mcp_bridge.oauth oauth2_provider"),
    ],
)
@pytest.mark.alone
def test_admin_supports_a_swapped_application_model(tmp_path: Path, model: str, apps: str) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").touch()
    (tmp_path / "own" / "models.py").write_text(MODELS)
    (tmp_path / "site_urls.py").write_text(SITE)
    run_python("-c", STORY, str(tmp_path), model, apps)
