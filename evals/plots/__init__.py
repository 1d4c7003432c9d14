"""The pictures of reports, as SVG without any library: a frame to draw in, and the charts that reports use. Pure."""
