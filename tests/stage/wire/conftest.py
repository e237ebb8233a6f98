"""Settings of the wire's property tests."""

from hypothesis import settings

# A busy machine makes a slow example, not a failed one; pytest-timeout ends what hangs.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
