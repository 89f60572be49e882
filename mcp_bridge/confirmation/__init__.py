"""Calls that require a person's confirmation: asked, held, decided, resumed."""
