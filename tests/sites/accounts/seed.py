from people.models import Person

for name in USERS:  # noqa: F821
    Person.objects.create_user(f"{name}@example.com", PASSWORD, name=name, role=name)  # noqa: F821
