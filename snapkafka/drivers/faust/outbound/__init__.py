"""The way out of a Faust app."""
