"""A scripted planner for LIBERO's scenes: skills put together from a scene's goal, closed loop on the measured state, never trusted."""
