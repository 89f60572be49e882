"""Optional packages and modules: the core does not import them, and a site may delete them."""
