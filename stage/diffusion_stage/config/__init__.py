"""The stage's configuration: parsed once, resolved once, never changed."""
