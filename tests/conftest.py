"""For every test: a slow machine is no failure."""

from hypothesis import settings

settings.register_profile("decodelab", deadline=None)
settings.load_profile("decodelab")
