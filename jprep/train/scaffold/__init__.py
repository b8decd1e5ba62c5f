"""Write the package of a new backend from a template."""
