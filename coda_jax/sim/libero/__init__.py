"""LIBERO's own scenes in plain MuJoCo: models, controller, predicates, simulator. The package's code runs only in a child process."""
