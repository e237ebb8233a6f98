"""From scheduler output to workers and back: in this process, or one process per device."""
