"""Pipelines that run step by step, and what the runner and they share: state, batch, protocol."""
