"""Write a recipe of one's own: `jprep init`. `corpus_tables` and `train_tables` have a function for each table."""
