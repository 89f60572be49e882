"""Calls that wait for a person: asked, held, decided, resumed."""
