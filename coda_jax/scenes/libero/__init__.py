"""LIBERO and LIBERO-Pro as data: task files, initial states, scenes, edits. Files of the package are read, none of its code runs."""
