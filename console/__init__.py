"""Console: a web page on which one sees the suite think. A client like any other."""
