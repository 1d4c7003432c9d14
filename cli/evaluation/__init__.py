"""The commands of `metacog eval`, which run the experiments of `evals` against the running suite."""
