"""Limits of training programs that the critic's input also depends on."""

MAX_STAGES = 4
"""Subgoals of one training program, at most."""

CODE_DIM = 68
"""Length of a program's code: per stage one flag and one switch per helper (13), then 16 signs."""
