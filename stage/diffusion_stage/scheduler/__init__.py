"""Which requests run next: states, queue, capacity. Knows no tensor and no executor."""
