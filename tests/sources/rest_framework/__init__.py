"""Views of Django REST framework as tools."""
