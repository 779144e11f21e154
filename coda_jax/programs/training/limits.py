"""Sizes of training programs that learning code compiles for."""

from __future__ import annotations

MAX_STAGES = 4  # subgoals of a staged potential (paper: m <= 4)
CODE_DIM = 68  # floats that describe a program to the critic
