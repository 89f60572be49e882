from __future__ import annotations

import os

from people.models import Person

for name in os.environ["SITE_USERS"].split():
    address = f"{name}@example.com"
    Person.objects.create_user(address, os.environ["SITE_PASSWORD"], name=name, role=name)
