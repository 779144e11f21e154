"""LIBERO's scenes with few primitives and explicit pairs, for MJX and for what a change of shapes costs."""
