"""Topics and consumer groups of a cluster, asked for and changed."""
