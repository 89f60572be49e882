"""A small app of notes, for sites that are about their users: its models and ten procedures."""

from __future__ import annotations

from tests.sites.site import Call

MODELS = "notes/models.py"
PROCEDURES = "notes/procedures.py"
SETTINGS = """
INSTALLED_APPS += ["notes"]
"""
URLS = """
from django.http import JsonResponse
from notes.models import Note

def notes(request):
    return JsonResponse({"notes": list(Note.objects.values_list("text", flat=True))})

urlpatterns.append(path("notes/", notes))
"""
READING = {"people_list", "person_read", "people_count", "notes_list", "note_read", "whoami"}
WRITING = {"note_create", "note_change", "note_publish"}
LISTED = {
    "reader": READING,
    "editor": READING | WRITING,
    "admin": READING | WRITING | {"person_deactivate"},
}
CALLS = (
    Call("reader", "whoami", {}, "reader"),
    Call("reader", "people_list", {}, "editor"),
    Call("editor", "note_create", {"text": "Harvest"}, "Harvest"),
    Call("reader", "notes_list", {}, "Harvest"),
    Call("admin", "people_count", {}, "3"),
)
PUBLISH = Call("editor", "note_publish", {"text": "Harvest"}, "is published")
