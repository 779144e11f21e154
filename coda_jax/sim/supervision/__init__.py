"""What went wrong in a failed execution, and which changed plan is tried next (docs/planners.md)."""
