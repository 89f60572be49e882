from __future__ import annotations

from django.apps import AppConfig


class NewsroomConfig(AppConfig):
    name = "testproject.newsroom"
    label = "newsroom"
