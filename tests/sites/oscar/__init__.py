"""django-oscar, a shop, with django-oscar-api: all of that enabled, as their pages say."""

from __future__ import annotations

from typing import Any

from tests.sites.site import OWN, STARTPROJECT, UNMARKED, Interface, Site, Write


def taking(**members: str) -> dict[str, Any]:
    """Return the options of a view whose serializer is that of its answer."""
    properties = {name: {"type": kind} for name, kind in members.items()}
    schema = {"type": "object", "properties": properties, "required": list(members)}
    return {"input_schema": {**schema, "additionalProperties": False}}


VIEWS = {
    "api-basket-add-product": taking(url="string", quantity="integer"),
    "api-basket-add-voucher": taking(vouchercode="string"),
}

ADDRESS = {
    "first_name": "Ylajali",
    "last_name": "Hansen",
    "line1": "Sult gate 1",
    "line4": "Oslo",
    "postcode": "0150",
    "country": "http://127.0.0.1/api/countries/NO/",
}

SITE = Site(
    name="oscar",
    requirements="oscar/requirements.txt",
    create=STARTPROJECT,
    own_settings="""
from oscar.defaults import *
INSTALLED_APPS += [
    "django.contrib.sites",
    "django.contrib.flatpages",
    "oscar.config.Shop",
    "oscar.apps.analytics.apps.AnalyticsConfig",
    "oscar.apps.checkout.apps.CheckoutConfig",
    "oscar.apps.address.apps.AddressConfig",
    "oscar.apps.shipping.apps.ShippingConfig",
    "oscar.apps.catalogue.apps.CatalogueConfig",
    "oscar.apps.catalogue.reviews.apps.CatalogueReviewsConfig",
    "oscar.apps.communication.apps.CommunicationConfig",
    "oscar.apps.partner.apps.PartnerConfig",
    "oscar.apps.basket.apps.BasketConfig",
    "oscar.apps.payment.apps.PaymentConfig",
    "oscar.apps.offer.apps.OfferConfig",
    "oscar.apps.order.apps.OrderConfig",
    "oscar.apps.customer.apps.CustomerConfig",
    "oscar.apps.search.apps.SearchConfig",
    "oscar.apps.voucher.apps.VoucherConfig",
    "oscar.apps.wishlists.apps.WishlistsConfig",
    "oscar.apps.dashboard.apps.DashboardConfig",
    "oscar.apps.dashboard.reports.apps.ReportsDashboardConfig",
    "oscar.apps.dashboard.users.apps.UsersDashboardConfig",
    "oscar.apps.dashboard.orders.apps.OrdersDashboardConfig",
    "oscar.apps.dashboard.catalogue.apps.CatalogueDashboardConfig",
    "oscar.apps.dashboard.offers.apps.OffersDashboardConfig",
    "oscar.apps.dashboard.partners.apps.PartnersDashboardConfig",
    "oscar.apps.dashboard.pages.apps.PagesDashboardConfig",
    "oscar.apps.dashboard.ranges.apps.RangesDashboardConfig",
    "oscar.apps.dashboard.reviews.apps.ReviewsDashboardConfig",
    "oscar.apps.dashboard.vouchers.apps.VouchersDashboardConfig",
    "oscar.apps.dashboard.communications.apps.CommunicationsDashboardConfig",
    "oscar.apps.dashboard.shipping.apps.ShippingDashboardConfig",
    "widget_tweaks",
    "haystack",
    "treebeard",
    "django_tables2",
    "rest_framework",
    "oscarapi",
]
SITE_ID = 1
MIDDLEWARE += [
    "oscarapi.middleware.ApiBasketMiddleWare",
    "django.contrib.flatpages.middleware.FlatpageFallbackMiddleware",
]
TEMPLATES[0]["OPTIONS"]["context_processors"] += [
    "oscar.apps.search.context_processors.search_form",
    "oscar.apps.checkout.context_processors.checkout",
    "oscar.apps.communication.notifications.context_processors.notifications",
    "oscar.core.context_processors.metadata",
]
HAYSTACK_CONNECTIONS = {"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}}
OSCARAPI_BLOCK_ADMIN_API_ACCESS = False
""",
    own_urls="""
from django.apps import apps
from django.urls import include
urlpatterns += [
    path("api/", include("oscarapi.urls")),
    path("", include(apps.get_app_config("oscar").urls[0])),
]
""",
    seed="oscar/seed.py",
    bridge={"EXPOSE": "all"},
    pages=("/admin/jsi18n/", "/api/products/", "/api/categories/"),
    changing_headers=frozenset({"date", "connection", "set-cookie"}),
    interface=Interface(
        sources={"drf": {**UNMARKED, "OPTIONS": {"prefix": OWN, "views": VIEWS}}},
        operations=108,
        warned=frozenset(),
        values={
            **dict.fromkeys(("pk", "line_pk", "basket_pk", "product_pk"), [1, 2, 99]),
            "breadcrumbs": ["fiction", "fiction/novels", "none"],
            "slug": ["book", "none"],
        },
        arguments={"api_country_detail": [{"pk": "NO"}, {"pk": "XX"}]},
        writes=(
            Write(
                "admin",
                "api_admin_productclass_list_post",
                {"name": "Magazine", "options": [], "attributes": []},
                "/api/admin/productclasses/magazine/",
                "Magazine",
            ),
            Write(
                "admin",
                "api_admin_category_list_post",
                {"name": "Poems", "slug": "poems"},
                "/api/categories/",
                "Poems",
            ),
            Write(
                "admin",
                "api_admin_product_list_post",
                {
                    "product_class": "magazine",
                    "slug": "autumn",
                    "title": "Autumn",
                    "upc": "979",
                    "categories": ["Poems"],
                },
                "/api/products/3/",
                "Autumn",
            ),
            Write(
                "editor",
                "api_admin_product_detail_patch",
                {"pk": 1, "title": "Hunger, a novel"},
                "/api/products/1/",
                "Hunger, a novel",
            ),
            Write(
                "reader",
                "api_api_basket_add_product",
                {"url": "http://127.0.0.1/api/products/1/", "quantity": 2},
                "/api/basket/",
                '"total_incl_tax":"20.00"',
            ),
            Write(
                "reader",
                "api_basket_line_detail_patch",
                {"basket_pk": 1, "pk": 2, "quantity": 3},
                "/api/basket/",
                '"total_incl_tax":"30.00"',
            ),
            Write(
                "reader",
                "api_api_basket_add_voucher",
                {"vouchercode": "AUTUMN"},
                "/api/basket/",
                "AUTUMN",
            ),
            Write(
                "reader",
                "api_useraddress_list_post",
                {**ADDRESS, "is_default_for_shipping": True},
                "/api/useraddresses/",
                "Sult gate 1",
            ),
            Write(
                "reader",
                "api_api_checkout",
                {
                    "basket": "http://127.0.0.1/api/baskets/1/",
                    "guest_email": "",
                    "shipping_address": ADDRESS,
                    "billing_address": ADDRESS,
                },
                "/api/orders/",
                "/api/orders/2/",
            ),
            Write(
                "admin",
                "api_admin_stockrecord_detail_patch",
                {"pk": 1, "price": "12.50"},
                "/api/products/1/price/",
                "12.50",
            ),
            Write(
                "reader",
                "api_useraddress_detail_delete",
                {"pk": 1},
                "/api/useraddresses/1/",
                "404 ",
            ),
        ),
    ),
)
