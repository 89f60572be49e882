"""The parts of ``run.py``: one module for each program that it drives."""

from __future__ import annotations
