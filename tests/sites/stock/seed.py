from __future__ import annotations

import os
from datetime import date, time, timedelta

from django.contrib.auth.models import Permission, User
from stock.models import Item, Label, Move, Shelf, Tag

for name in os.environ["SITE_USERS"].split():
    user = User.objects.create_user(name, password=os.environ["SITE_PASSWORD"])
    if name == "editor":
        user.user_permissions.add(Permission.objects.get(codename="change_note"))
    if name == "admin":
        User.objects.filter(pk=user.pk).update(is_superuser=True, is_staff=True)
shelf = Shelf.objects.create(name="A1")
Shelf.objects.create(name="A2")
tags = [Tag.objects.create(code=code) for code in ("heavy", "sharp")]
for number in range(3):
    item = Item.objects.create(
        name=f"Hammer {number}",
        shelf=shelf,
        price="19.90",
        weight=1.5,
        opens=time(8, 30),
        lasts=timedelta(days=2, hours=1),
        data={"of": ["steel", number]},
        keeper=user,
    )
    item.tags.set(tags[: number + 1])
    Move.objects.create(item=item, day=date(2026, 1, 2 + number), amount=number)
Label.objects.create(item=item, text="no. 2")
