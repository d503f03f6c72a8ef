"""Small worlds, explored in every order of their steps."""
