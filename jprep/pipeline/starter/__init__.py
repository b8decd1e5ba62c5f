"""Write a recipe of one's own: `jprep init`. Each table of the recipe has one building block in `tables`."""
