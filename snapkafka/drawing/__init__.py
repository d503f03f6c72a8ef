"""Space-time diagrams: what is near a cut, where each event is drawn, and SVG or PNG of it."""

from .layout import Lane, Layout, Picture, lay_out
from .order import DrawnMessage
