"""A recipe from its first file to an exported model: the steps, where their outputs lie, and how to make it small."""
