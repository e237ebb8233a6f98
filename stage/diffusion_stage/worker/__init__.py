"""One process per device: its channel, its worker, its model runner."""
