"""What the stage costs, each figure side by side with plain diffusers or a plain copy."""
