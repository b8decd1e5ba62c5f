"""Compare recipes by the models that they train."""
