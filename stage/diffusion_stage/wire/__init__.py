"""What clients and stages say to each other: messages, their frames, and their sockets."""
