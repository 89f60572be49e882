"""A person's confirmation of one call, by the client's form or in the approval queue."""
