"""The demo: one manifest in, images out, a death in between. `python -m demo`, or `make demo`."""
