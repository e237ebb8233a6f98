"""A diffusion stage: a client, a ZMQ server and the engine behind it."""
