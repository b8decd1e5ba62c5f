"""Run a whole recipe: the typed recipe, its steps, the paths of its outputs, and the scale `tiny`."""
