"""Bearer tokens in the database: hashed, shown once, expiring, revocable."""
