"""Pictures of what a scheduler did."""
