"""Real sites, unedited, with the bridge installed into them: ``make sites``."""
