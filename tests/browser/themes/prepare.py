"""Create the rows of a newsroom in use; print the owner's session and the pages as JSON."""

from __future__ import annotations

import json

import django

django.setup()

from django.core.management import call_command  # noqa: E402
from django.test import Client  # noqa: E402

from tests.support.in_use import pages, use_newsroom  # noqa: E402

call_command("migrate", verbosity=0)
owner = use_newsroom()
browser = Client()
browser.force_login(owner)
print(json.dumps({"session": browser.cookies["sessionid"].value, "pages": pages(owner)}))
