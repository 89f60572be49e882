"""The users of the demonstration: one for each role, and authors who do not log in."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password

from testproject.newsroom.models import Author
from testproject.newsroom.roles import create_roles
from testproject.newsroom.seeding.texts import BYLINES

# For the demonstration only, on 127.0.0.1.
PASSWORD = "demo"
# The user of each role, and the name that signs what the user writes.
USERS = {
    "reader": ("reader", None),
    "author": ("author", "Alma Writer"),
    "editor": ("editor", "Edgar Redman"),
    "admin": ("administrator", "Ines Keys"),
}


def seed_users() -> dict[str, Any]:
    """Make the four users with their roles and profiles, where they are missing."""
    groups = create_roles()
    missing = USERS.keys() - set(_users(USERS).values_list("username", flat=True))
    password = make_password(PASSWORD) if missing else ""
    users = {}
    for username, (role, byline) in USERS.items():
        defaults = {
            "password": password,
            "email": f"{username}@fairhaven.example",
            "is_staff": role in ("editor", "administrator"),
        }
        users[username] = _user(username, byline, defaults)
        users[username].groups.add(groups[role])
    return users


def seed_authors(users: dict[str, Any]) -> list[Author]:
    """Make the authors who do not log in; gives back all authors whom the seed knows."""
    for byline in BYLINES:
        username = byline.split()[0].lower()
        email = f"{username}@fairhaven.example"
        # A password that starts with "!" can never be entered.
        _user(username, byline, {"password": "!", "email": email})
    bylines = [byline for _, byline in USERS.values() if byline]
    return list(Author.objects.filter(byline__in=[*BYLINES, *bylines]).order_by("byline"))


def _users(usernames: Any) -> Any:
    return get_user_model().objects.filter(username__in=usernames)


def _user(username: str, byline: str | None, defaults: dict[str, Any]) -> Any:
    user, _ = get_user_model().objects.get_or_create(username=username, defaults=defaults)
    if byline:
        bio = f"{byline} writes for the newsroom."
        Author.objects.get_or_create(user=user, defaults={"byline": byline, "bio": bio})
    return user
