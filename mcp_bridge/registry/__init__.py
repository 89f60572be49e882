"""Which tools are served now: those of the code, as administrators have set them."""
