"""Pipelines: found, loaded, and asked what they can do."""
