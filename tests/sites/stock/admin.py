from __future__ import annotations

from django.contrib import admin
from import_export.admin import ImportExportModelAdmin
from reversion.admin import VersionAdmin
from simple_history.admin import SimpleHistoryAdmin
from stock.models import Item, Label, Move, Shelf, Tag


class MoveInline(admin.TabularInline):
    model, extra, max_num = Move, 1, 3


class LabelInline(admin.StackedInline):
    model = Label


@admin.register(Item)
class ItemAdmin(SimpleHistoryAdmin):
    list_display = ["name", "kind", "shelf", "price", "active"]
    list_editable = ["active"]
    list_filter = ["kind", "active", "shelf", "tags", "bought"]
    search_fields = ["name"]
    filter_horizontal = ["tags"]
    raw_id_fields = ["keeper"]
    radio_fields = {"kind": admin.VERTICAL}
    inlines = [MoveInline, LabelInline]
    fieldsets = [
        (None, {"fields": [("name", "kind"), "shelf", "tags", "price", "weight"]}),
        (
            "More",
            {"classes": ["collapse"], "fields": ["active", "checked", "bought", "counted_at"]},
        ),
        (
            "Rest",
            {
                "fields": [
                    "opens",
                    "lasts",
                    "data",
                    "picture",
                    "address",
                    "page",
                    "number",
                    "keeper",
                ]
            },
        ),
    ]
    actions = ["retire"]

    @admin.action(description="Retire %(verbose_name_plural)s", permissions=["change"])
    def retire(self, request, queryset):
        self.message_user(request, f"{queryset.update(active=False)} retired.")

    def get_readonly_fields(self, request, obj=None):
        return [] if request.user.is_superuser else ["price"]

    def save_model(self, request, obj, form, change):
        obj.keeper = obj.keeper or request.user
        super().save_model(request, obj, form, change)


@admin.register(Shelf)
class ShelfAdmin(VersionAdmin):
    search_fields = ["name"]


@admin.register(Tag)
class TagAdmin(ImportExportModelAdmin):
    list_display = ["code", "text"]


@admin.register(Move)
class MoveAdmin(VersionAdmin):
    date_hierarchy = "day"
    autocomplete_fields = ["item"]
    list_select_related = ["item"]
