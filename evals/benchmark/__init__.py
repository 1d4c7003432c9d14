"""The delegation benchmark, built anew: 5 dimensions x 3 difficulties x 40 from public sets, and 100 that cross them.

The cross-domain tasks are made here, and their answers are computed, never written by a model. The same seed and the
same data give the same 700 tasks.
"""
