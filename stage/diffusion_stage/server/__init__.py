"""The stage process: sockets, probes, drain and death around one engine."""
