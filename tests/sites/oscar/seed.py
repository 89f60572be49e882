"""Fill a shop with the objects needed to buy a book, by the factories of oscar's own tests."""

from __future__ import annotations

import os
from decimal import Decimal

from django.contrib.auth.models import Permission, User
from oscar.apps.address.models import Country
from oscar.apps.basket.models import Basket
from oscar.apps.catalogue.models import Category, Option
from oscar.test import factories

for name in os.environ["SITE_USERS"].split():
    user = User.objects.create_user(
        name,
        f"{name}@example.com",
        os.environ["SITE_PASSWORD"],
        is_staff=name != "reader",
        is_superuser=name == "admin",
    )
reader, editor = (User.objects.get(username=name) for name in ("reader", "editor"))
editor.user_permissions.set(Permission.objects.filter(content_type__model="product"))
# Each request of a user without a basket makes one: this is the first.
Basket.objects.create(owner=reader)
Country.objects.create(
    iso_3166_1_a2="NO", printable_name="Norway", name="NORWAY", is_shipping_country=True
)
Category.add_root(name="Fiction").add_child(name="Novels")
book = factories.create_product(
    upc="978",
    title="Hunger",
    product_class="Book",
    price=Decimal("10.00"),
    num_in_stock=90,
    partner_name="Press",
    partner_sku="H1",
)
book.categories.add(Category.objects.get(name="Novels"))
Option.objects.create(name="Dedication", code="dedication")
factories.create_order(number="1", user=reader)
voucher = factories.VoucherFactory(code="AUTUMN")
voucher.offers.add(factories.create_offer(offer_type="Voucher"))
