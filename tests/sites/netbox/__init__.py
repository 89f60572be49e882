"""NetBox, a site of more than a thousand operations, with PostgreSQL and Redis: ``make netbox``."""
