"""What the trained icon model can draw, and a judge that says whether it drew it."""
