"""What ``run.py`` is made of: one module for each program that it drives."""

from __future__ import annotations
