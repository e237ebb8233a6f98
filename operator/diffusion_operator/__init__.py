"""The operator that turns DiffusionStage resources into pods."""
