"""Admission, the one busy loop, and each request's stream of events."""
