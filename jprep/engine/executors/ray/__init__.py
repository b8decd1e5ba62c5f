"""The executor `ray`: tasks on the nodes of a Ray cluster."""
